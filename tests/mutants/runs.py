"""pytest in a process group of its own, killed when its time is over, and its outcomes.

In a process that starts afresh, or in a fork of one that has imported all (`tests.mutants.warm`).
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

PYTEST = (
    "pytest",
    "-q",
    "-p",
    "tests.mutants.watch",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-n0",
    "--tb=no",
    "--hypothesis-seed=0",
)
READY = "ready\n"
IMPORTED_BEFORE = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")


@dataclass(slots=True)
class Outcome:
    """Of one test: whether a phase of it failed, and how long all of them took."""

    failed: bool = False
    skipped: bool = False
    seconds: float = 0.0
    setup_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A run of pytest in a fork."""

    tests: list[str]
    seconds_max: float
    options: list[str] = field(default_factory=list)
    file: str = ""
    """Where a fault is planted, and the file's text without and with it."""
    old: str = ""
    new: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    coverage: str = ""
    """coverage's settings, where lines are counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """pytest's status, None where its time was over; or that only an import can show the fault."""

    status: int | None
    cold: bool


class WarmProcess:
    """A process that has imported all and forks for each run."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.warm"],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # A fault that is planted from now on is in none of what it has imported.
        if self._line() != READY:
            raise RuntimeError("the process that forks did not start")

    def run(self, job: Job) -> Answer:
        """Run `job`."""
        if self._process.stdin is None:
            raise RuntimeError("the process that forks has no standard input")
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        return Answer(**json.loads(self._line()))

    def _line(self) -> str:
        if self._process.stdout is None:
            raise RuntimeError("the process that forks has no standard output")
        return self._process.stdout.readline()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def run_bounded(
    command: list[str], root: Path, environment: dict[str, str], seconds_max: float
) -> int | None:
    """The status of `command`, or None when its time was over and its process group was killed."""
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # Brokers that a failed test left behind, too.
        _kill_group(process.pid)
        process.wait()


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """By test: what `tests.mutants.watch` wrote, in the order in which tests ended."""
    outcomes: dict[str, Outcome] = {}
    if not path.exists():
        return outcomes
    for line in path.read_text().splitlines():
        name, result, seconds, phase = json.loads(line)
        outcome = outcomes.setdefault(name, Outcome())
        outcome.failed |= result == "failed"
        outcome.skipped |= result == "skipped"
        outcome.seconds += seconds
        outcome.setup_seconds += seconds if phase == "setup" else 0.0
    return outcomes
