"""Files and directories that survive a power failure."""

import os
from collections.abc import Iterable
from pathlib import Path


def flush_directory(directory: Path) -> None:
    """Flush a directory: new names and renames in it are durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_directories(location: Path, paths: Iterable[str]) -> None:
    """Flush the directories of files to disk, so that a power failure does not take their names.

    `paths`: of flushed files, relative to `location`. Flushes each directory from a file's own up
    to `location`, once: a new directory's name is in the one above. Raises OSError.
    """
    for directory in sorted({location / above for path in paths for above in Path(path).parents}):
        flush_directory(directory)


def make_directories(directory: Path) -> None:
    """Create a directory with its missing parents, durably. Raises OSError."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        flush_directory(path.parent)


def flush_file(path: Path) -> None:
    """Flush a file's content. Raises OSError."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def replace_durably(source: Path, target: Path) -> None:
    """Rename a flushed file within its directory, and make the name durable. Raises OSError."""
    source.replace(target)
    flush_directory(target.parent)


def replace_file(location: Path, target: Path, content: bytes, *, writer: str = "") -> None:
    """Write a file below `location`, or replace it, atomically and durably. Raises OSError.

    `writer`: part of the temporary file's name; tells apart processes that write the same file at
    once.
    """
    temporary = target.with_suffix(f".{writer}.tmp" if writer else ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_directories(location, [str(target.relative_to(location))])
