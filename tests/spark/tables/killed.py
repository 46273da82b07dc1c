"""A commit in a process that is killed at a step that is counted."""

import os
import sys
from pathlib import Path
from typing import Any

from tests.support.spark.tables import Run, rows

_STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect")


def main(directory: Path, kind: str, step: int, **options: Any) -> None:
    """Write and commit batch 1 of a run; killed at the so-manieth step of the commit."""
    run = Run(directory, kind, **options)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    steps = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in _STEPS and str(directory) in str(arguments[0] if arguments else ""):
            steps += 1
            if steps == step:
                os._exit(9)

    sys.addaudithook(count)
    prepared.commit()
