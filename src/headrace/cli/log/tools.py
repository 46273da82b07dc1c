"""Shared by commands on log directories: whether a broker runs, a progress bar, counts in words."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.log import file_names
from headrace.logtools.verify import Report
from headrace.posix.disk import in_use
from headrace.terminal.failure import EXIT_USAGE, CommandError
from headrace.terminal.output import counted


def existing(path: Path, kind: str) -> Path:
    """Return the path, absolute. CommandError (usage) if it does not exist."""
    if not path.exists():
        raise CommandError(f"{path}: there is no such {kind}", EXIT_USAGE)
    return path.absolute()


def broker_runs_on(path: Path) -> bool:
    """Return whether a process holds the lock of the log directory that `path` is, or is in."""
    places = [directory for directory in (path, *list(path.parents)[:2]) if directory.is_dir()]
    return any(in_use(str(place / file_names.LOCK)) for place in places)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar of `total` bytes on a terminal, nothing elsewhere.

    Yields its function.
    """
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda size: bar.advance(task, size)


def sums(report: Report) -> str:
    """Return counts like `2 partitions, 5 segments, 10 batches, 100 records, 12,345 bytes`."""
    return ", ".join(
        counted_with_commas(number, noun)
        for number, noun in (
            (report.partitions, "partition"),
            (report.segments, "segment"),
            (report.batches, "batch"),
            (report.records, "record"),
            (report.bytes, "byte"),
        )
    )


def counted_with_commas(number: int, noun: str) -> str:
    """Return a count with its noun: `1 batch`, `12,345 batches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return counted(number, noun) if number == 1 else f"{number:,} {plural}"
