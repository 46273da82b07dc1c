"""One fault in a copy of the source, and the tests that are asked about it."""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.runs import PYTEST, Job, Outcome, WarmProcess, read_outcomes, run_bounded
from tests.mutants.watch import OUTCOMES

FOUND, HANGS, REFUSED, SURVIVED = "found", "hangs", "refused", "survived"
SLOW, UNTESTED = "out of time, as without the fault", "no test runs it"
NOTICED = (FOUND, HANGS, REFUSED)
TYPES_SECONDS_MAX = 300.0
CONFIRM_SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a fault: one of the words above, by which test, of how many asked."""

    word: str
    test: str = ""
    asked: int = 0


class Copy:
    """The source beside the tree, for one worker: the tests of the tree import it instead."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.root = root
        self.directory = directory
        shutil.copytree(root / "src", directory / "src")
        # Bytecode is told from its source by a hash: a fault of equal size in the same second too.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(
            str(directory / "src"), quiet=1, force=True, invalidation_mode=checked
        )
        self.environment = os.environ | {
            "PYTHONPATH": str(directory / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(directory / "hypothesis"),
            "TMPDIR": str(directory),
            OUTCOMES: str(directory / "outcomes"),
        }
        self._warm = WarmProcess(root, self.environment)
        self._sound_types: bool | None = None
        self._check()

    def _check(self) -> None:
        """The copy is what a test imports, and not the tree it was made of."""
        ask = [sys.executable, "-c", "import headrace; print(headrace.__file__)"]
        answer = subprocess.run(
            ask, cwd=self.root, env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()
        if not answer.startswith(str(self.directory)):
            raise RuntimeError(f"tests would import {answer}, not the copy in {self.directory}")

    def end(self) -> None:
        """End the process that forks."""
        self._warm.end()

    @contextmanager
    def holding(self, file: str, text: str) -> Iterator[None]:
        """The copy with `text` in `file`; as before afterwards."""
        path = self.directory / file
        before = path.read_bytes()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_bytes(before)

    def run(
        self, tests: list[str], seconds_max: float, *more: str
    ) -> tuple[int | None, dict[str, Outcome]]:
        """pytest's status over `tests` (None: out of time) and what each came to."""
        outcomes = self.directory / "outcomes"
        outcomes.unlink(missing_ok=True)
        kept = self.directory / "pytest"
        command = [sys.executable, "-m", *PYTEST, f"--basetemp={kept}", *more, *tests]
        status = run_bounded(command, self.root, self.environment, seconds_max)
        shutil.rmtree(kept, ignore_errors=True)
        return status, read_outcomes(outcomes)

    def run_warm(
        self, tests: list[str], seconds_max: float, file: str = "", text: str = ""
    ) -> tuple[int | None, dict[str, Outcome]]:
        """The same in a fork of a process that has imported all, and took the fault since.

        Where it cannot, or a fault is not noticed so (it may have an effect only at an import), in
        a process of its own.
        """
        outcomes = self.directory / "outcomes"
        outcomes.unlink(missing_ok=True)
        kept = self.directory / "pytest"
        answer = self._warm.run(
            Job(
                tests=tests,
                seconds_max=seconds_max,
                options=[f"--basetemp={kept}", *(["-x"] if file else [])],
                file=file,
                old=(self.root / file).read_text() if file else "",
                new=text,
            )
        )
        shutil.rmtree(kept, ignore_errors=True)
        if file and (answer.cold or not answer.status):
            return self.run(tests, seconds_max, "-x")
        return answer.status, read_outcomes(outcomes)

    def judge(
        self, file: str, text: str, tests: list[str], seconds_max: float, *, warm: bool = True
    ) -> Verdict:
        """Whether any of `tests`, asked in turn, notices that `text` stands in `file`."""
        if not tests:
            return Verdict(UNTESTED)
        with self.holding(file, text):
            if warm:
                status, outcomes = self.run_warm(tests, seconds_max, file, text)
            else:
                status, outcomes = self.run(tests, seconds_max, "-x")
        if status is None:
            sound, _ = self.run(tests, seconds_max / 2, "-x")
            return Verdict(SLOW if sound is None else HANGS, "", len(tests))
        if status:
            failed = [name for name, outcome in outcomes.items() if outcome.failed]
            return Verdict(FOUND, failed[0] if failed else "pytest did not start", len(tests))
        return Verdict(SURVIVED, "", len(tests))

    def is_typed(self, file: str, text: str) -> bool:
        """Whether mypy, as `make lint` asks it, lets `text` stand in `file`."""
        if self._sound_types is None:
            self._sound_types = self._types_pass()
        if not self._sound_types:
            raise RuntimeError("mypy refuses the source without a fault")
        with self.holding(file, text):
            return self._types_pass()

    def _types_pass(self) -> bool:
        command = [sys.executable, "-m", "mypy", f"--config-file={self.root / 'pyproject.toml'}"]
        command += [f"--cache-dir={self.directory / 'mypy'}", "src"]
        return run_bounded(command, self.directory, self.environment, TYPES_SECONDS_MAX) == 0

    def passes(self, test: str) -> bool:
        """Whether `test` passes without a fault, here and now."""
        return self.run_warm([test], CONFIRM_SECONDS_MAX)[0] == 0


@contextmanager
def copies(root: Path, count: int) -> Iterator[list[Copy]]:
    """A copy of the source for each of `count` workers, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        made = [Copy(root, Path(directory) / f"copy-{number}") for number in range(count)]
        try:
            yield made
        finally:
            for copy in made:
                copy.end()
