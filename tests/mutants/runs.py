"""pytest in a process group of its own, killed when its time is over, and its outcomes."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
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
    "--hypothesis-seed=0",
)


@dataclass(slots=True)
class Outcome:
    """Of one test: whether a phase of it failed, and how long all of them took."""

    failed: bool = False
    skipped: bool = False
    seconds: float = 0.0


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
        name, result, seconds = json.loads(line)
        outcome = outcomes.setdefault(name, Outcome())
        outcome.failed |= result == "failed"
        outcome.skipped |= result == "skipped"
        outcome.seconds += seconds
    return outcomes
