"""Counts of a batch in a file, from the sink to the process that runs the query.

<directory>/<batch>.json          written after the sink's commit; deleted by its reader
<directory>/<batch>.<task>.json   written at the end of a reading task, not flushed; likewise
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.spark.durable import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_counts(directory: Path, batch: int, counts: Mapping[str, Any]) -> None:
    """Write the counts of a committed batch, as JSON; a full disk loses them."""
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory, directory / f"{batch}.json", json.dumps(counts).encode())


def take_counts(directory: Path, batch: int) -> Any:  # noqa: ANN401 - JSON
    """Return the counts of a batch and delete their file; None if there are none."""
    file = directory / f"{batch}.json"
    with suppress(OSError, ValueError):
        counts = json.loads(file.read_text(encoding="utf-8"))
        file.unlink(missing_ok=True)
        return counts
    return None


def write_task_counts(directory: Path, batch: int, task: str, counts: Mapping[str, Any]) -> None:
    """Write the counts of a reading task; a repeated task replaces them, a full disk loses them."""
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / f"{batch}.{task}.json"
        temporary = directory / f".{target.name}.{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(counts), encoding="utf-8")
        temporary.replace(target)


def take_task_counts(directory: Path, batch: int) -> list[Any]:
    """Return the counts of a batch's tasks; delete their files and those of earlier batches."""
    found = []
    with suppress(OSError):
        for file in sorted(directory.iterdir()):
            number = file.name.lstrip(".").partition(".")[0]
            if not number.isdigit() or int(number) > batch:
                continue
            with suppress(OSError, ValueError):
                if int(number) == batch and not file.name.startswith("."):
                    found.append(json.loads(file.read_text(encoding="utf-8")))
                file.unlink(missing_ok=True)
    return found
