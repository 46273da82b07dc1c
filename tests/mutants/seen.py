"""Which tests run which line of the source, measured by coverage and kept in `out/mutants`.

Each test file is run once, in a fork of its own, under coverage with the running test as the
context. Lines of brokers and commands that a test file starts as processes belong to all of its
tests. What a test file runs is measured again once the file, or a test's kit that it imports, or a
file of ours that it ran, has changed; nothing else is, and what was measured before an interruption
stays.
"""

import hashlib
import json
import os
import queue
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from coverage import CoverageData

from tests.mutants.faults import SOURCE
from tests.mutants.runs import Job, Outcome, WarmProcess, read_outcomes
from tests.mutants.warm import IMPORTED
from tests.mutants.watch import OUTCOMES

TEST_FILES = (
    "tests/unit/**/test_*.py",
    "tests/broker/**/test_*.py",
    "tests/house/test_*.py",
    "tests/property/test_*.py",
    "tests/security/test_*.py",
    "tests/golden/test_*.py",
    "tests/crash/test_*.py",
    "tests/spark/**/test_*.py",
    "tests/outside/clients/test_*.py",
)
"""Without what plants faults itself or looks at a wheel."""
OURS = (
    "tests/mutants/",
    "tests/house/test_mutant",
    "tests/crash/test_planted_faults.py",
    "tests/outside/clients/test_wheel.py",
)
FILE_SECONDS_MAX = 240.0
SHARED_SETUP_SECONDS_MIN = 1.0
IMPORTS = re.compile(r"^\s*(?:from|import) headrace\.([\w.]+)", re.MULTILINE)
COVERAGE_SETTINGS = """\
[run]
parallel = true
patch = subprocess
data_file = {data}
source = {source}
context = {file}
disable_warnings = no-data-collected,module-not-measured,module-not-imported,couldnt-parse
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """Tests with their seconds, and for each source line the tests that run it."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[frozenset[str]]]]
    breadth: dict[str, int]
    """Of each test, how many lines it runs."""
    loose: dict[str, dict[int, list[frozenset[str]]]] = field(default_factory=dict)
    """The same of lines a test file ran outside its tests, as in a broker's process."""
    importers: dict[str, set[str]] = field(default_factory=dict)
    """Of each file of the source, those that import it."""

    def choose(
        self, file: str, first: int, last: int, seconds_max: float, *, at_import: bool = False
    ) -> list[str]:
        """Tests to run for a fault in these lines, `seconds_max` of them, the likeliest first.

        In turn: the test that runs fewest lines in all, for it looks closest; and the fastest of
        a test file not asked yet, for it looks from elsewhere. Of a line that is run `at_import`,
        such as a constant of the module: those first that run most of the rest of `file`.
        """
        covering = _union(self.lines.get(file, {}), range(first, last + 1))
        narrow = sorted(covering, key=lambda test: (self.breadth[test], self.seconds[test], test))
        if not covering:
            covering, own = self._around(file, first, last, at_import=at_import)
            narrow = sorted(covering, key=lambda test: (-own[test], self.seconds[test], test))
        chosen: dict[str, None] = {}
        spent = 0.0
        in_turn = chain(*zip(narrow, self._from_each_file(covering), strict=True))
        for test in chain(in_turn, self._users(file, first, last)):
            if test not in chosen and (spent + self.seconds[test] <= seconds_max or not chosen):
                chosen[test] = None
                spent += self.seconds[test]
        return list(chosen)

    def wider(self, file: str, first: int, last: int, seconds_max: float) -> list[str]:
        """Tests to run for a fault in these lines that `choose` did not get noticed.

        Those that run the lines or import them, `seconds_max` of them: of each test file the
        fastest, then the second fastest; first the test files of the same room.
        """
        lines = range(first, last + 1)
        running = _union(self.lines.get(file, {}), lines)
        importing = _union(self.loose.get(file, {}), lines)
        room = file.split("/")[2]
        chosen: list[str] = []
        spent = 0.0
        for tests in (running, importing - running):
            ranked = self._from_each_file(tests)
            for test in sorted(ranked, key=lambda test: f"/{room}/" not in test):
                if spent + self.seconds[test] <= seconds_max:
                    chosen.append(test)
                    spent += self.seconds[test]
        return chosen

    def _users(self, file: str, first: int, last: int) -> list[str]:
        """Where the lines ran outside any test, too: who runs most lines that ran only in tests."""
        loose = self.loose.get(file, {})
        if not _union(loose, range(first, last + 1)):
            return []
        own = self._runs(file, but=loose.keys())
        return sorted(own, key=lambda test: (-own[test], self.seconds[test], test))

    def _around(
        self, file: str, first: int, last: int, *, at_import: bool
    ) -> tuple[set[str], Counter[str]]:
        """Tests of lines that none runs itself, and how many other lines of `file` each runs.

        Those that run the lines in a process of their own, if they run others in theirs; of lines
        run `at_import` all that run the rest of the file, or else the files that import it.
        """
        covering = _union(self.loose.get(file, {}), range(first, last + 1))
        own = self._runs(file)
        for importer in self.importers.get(file, ()) if at_import and not own else ():
            own += self._runs(importer)
        return covering.intersection(own) or covering or set(own if at_import else ()), own

    def _runs(self, file: str, but: Collection[int] = ()) -> Counter[str]:
        """Count how many lines of `file` each test runs, `but` those."""
        own: Counter[str] = Counter()
        for line, groups in self.lines.get(file, {}).items():
            if line not in but:
                own.update(test for group in groups for test in group)
        return own

    def _from_each_file(self, tests: set[str]) -> list[str]:
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            by_file[test.partition("::")[0]].append(test)
        ranked = [
            (rank, self.seconds[test], test)
            for of_file in by_file.values()
            for rank, test in enumerate(of_file)
        ]
        return [test for _, _, test in sorted(ranked)]


def _union(lines: dict[int, list[frozenset[str]]], wanted: range) -> set[str]:
    return {test for line in wanted for group in lines.get(line, ()) for test in group}


def measure(root: Path, workers: int) -> Seen:
    """The measurement of this tree: of each test file, read where it still holds, else made."""
    directory = root / "out" / "mutants"
    directory.mkdir(parents=True, exist_ok=True)
    files = asked_files(root)
    hashes = hashes_of(root)
    missing = unmeasured(directory, files, hashes)
    if missing:
        print(f"measuring which lines {len(missing)} of {len(files)} test files run", flush=True)
        _measure_files(root, directory, hashes, missing, workers)
    return _read(root, directory, files)


def _measure_files(
    root: Path, directory: Path, hashes: dict[str, str], files: list[str], workers: int
) -> None:
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    processes = [WarmProcess(root, environment) for _ in range(workers)]
    free: queue.SimpleQueue[WarmProcess] = queue.SimpleQueue()
    for process in processes:
        free.put(process)

    def measure_one(file: str) -> None:
        process = free.get()
        try:
            _measure_file(root, directory, hashes, file, process)
        finally:
            free.put(process)

    try:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(measure_one, files):
                pass
    finally:
        for process in processes:
            process.end()


def asked_files(root: Path) -> list[str]:
    """The test files that are asked, but not those of what plants faults."""
    names = [
        path.relative_to(root).as_posix()
        for pattern in TEST_FILES
        for path in sorted(root.glob(pattern))
    ]
    return [name for name in names if not name.startswith(OURS)]


def hashes_of(root: Path) -> dict[str, str]:
    """The hash of every file of the source and of every test's, by name."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for pattern in ("src/headrace/**/*.py", "tests/**/*.py")
        for path in root.glob(pattern)
    }


def unmeasured(directory: Path, files: list[str], hashes: dict[str, str]) -> list[str]:
    """Test files without a measurement, or of which something has changed since it was made."""

    def holds(part: Path) -> bool:
        if not part.exists():
            return False
        made_of = json.loads(part.read_text())["made_of"]
        return all(hashes.get(name) == known for name, known in made_of.items())

    return [file for file in files if not holds(_part(directory, file))]


def _part(directory: Path, file: str) -> Path:
    return directory / (file.replace("/", "-") + ".json")


def _measure_file(
    root: Path, directory: Path, hashes: dict[str, str], file: str, process: WarmProcess
) -> None:
    """Run one test file under coverage and write its part of the measurement."""
    part = _part(directory, file)
    work = part.with_suffix(".d")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    settings = work / "coveragerc"
    source = root / "src" / "headrace"
    settings.write_text(COVERAGE_SETTINGS.format(data=work / "data", source=source, file=file))
    environment = {
        OUTCOMES: str(work / "outcomes"),
        IMPORTED: str(work / "imported"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(work / "hypothesis"),
    }
    job = Job([file], FILE_SECONDS_MAX, environment=environment, coverage=str(settings))
    status = process.run(job).status
    outcomes = read_outcomes(work / "outcomes")
    print(f"  {file}: {len(outcomes)} tests", *(["status", status] if status else []), flush=True)
    for name in (name for name, outcome in outcomes.items() if outcome.failed):
        print(f"    fails without a fault, is not asked: {name}", flush=True)
    seconds = alone(outcomes)
    lines: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    made_of = {file, *_imported(work / "imported", root)}
    for data in sorted(work.glob("data.*")):
        for name, line, test in _contexts(data, root):
            made_of.add(name)
            if test in seconds or test == file:
                lines[name, line].add(test)
    kept = {
        "made_of": {name: hashes[name] for name in sorted(made_of) if name in hashes},
        "seconds": seconds,
        "groups": _grouped(file, lines, list(seconds)),
    }
    beside = part.with_suffix(".new")
    beside.write_text(json.dumps(kept))
    beside.rename(part)
    shutil.rmtree(work, ignore_errors=True)


def alone(outcomes: dict[str, Outcome]) -> dict[str, float]:
    """Seconds of each test that passed, were it asked alone.

    The first one of a file pays for the broker or the Spark that its neighbours use, too.
    """
    longest = max((outcome.setup_seconds for outcome in outcomes.values()), default=0.0)
    shared = longest if longest >= SHARED_SETUP_SECONDS_MIN else 0.0
    return {
        name: outcome.seconds + max(0.0, shared - outcome.setup_seconds)
        for name, outcome in outcomes.items()
        if not outcome.failed and not outcome.skipped
    }


def _imported(path: Path, root: Path) -> list[str]:
    """The tests' files among those that the fork imported."""
    if not path.exists():
        return []
    return [Path(name).relative_to(root).as_posix() for name in path.read_text().splitlines()]


def importers_of(root: Path) -> dict[str, set[str]]:
    """Of each module of the source, which of its files import it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (root / SOURCE).rglob("*.py"):
        file = path.relative_to(root).as_posix()
        for module in IMPORTS.findall(path.read_text()):
            found[f"{SOURCE}{module.replace('.', '/')}.py"].add(file)
    return found


def _contexts(path: Path, root: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and test (or, outside any, test file) of what one process ran."""
    data = CoverageData(basename=str(path))
    data.read()
    for name in data.measured_files():
        file = Path(name).relative_to(root).as_posix()
        for line, contexts in data.contexts_by_lineno(name).items():
            for context in contexts:
                yield file, line, context.partition("|")[2] or context.partition("|")[0]


def _grouped(
    file: str, lines: dict[tuple[str, int], set[str]], tests: list[str]
) -> list[tuple[list[int], dict[str, list[int]]]]:
    """Tests of `file`, by number, with the lines that exactly these run: few sets serve many lines.

    Lines run only outside any test (while importing, in a broker's process) have no numbers.
    """
    groups: defaultdict[tuple[int, ...], defaultdict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    numbers = {test: number for number, test in enumerate(tests)}
    for (name, line), seen_by in sorted(lines.items()):
        group = tuple(sorted(numbers[test] for test in seen_by - {file}))
        groups[group][name].append(line)
    return [(list(group), of_group) for group, of_group in groups.items()]


def _read(root: Path, directory: Path, files: list[str]) -> Seen:
    """Put the parts together."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[frozenset[str]]]] = {}
    loose: dict[str, dict[int, list[frozenset[str]]]] = {}
    breadth: defaultdict[str, int] = defaultdict(int)
    for file in files:
        part = json.loads(_part(directory, file).read_text())
        seconds |= part["seconds"]
        tests = list(part["seconds"])
        for numbers, of_group in part["groups"]:
            group = frozenset(tests[number] for number in numbers) or frozenset(tests)
            into = lines if numbers else loose
            if numbers:
                for test in group:
                    breadth[test] += sum(map(len, of_group.values()))
            for name, run in of_group.items():
                known = into.setdefault(name, {})
                for line in run:
                    known.setdefault(line, []).append(group)
    widths = {test: breadth[test] for test in seconds}
    return Seen(seconds, lines, widths, loose, importers_of(root))
