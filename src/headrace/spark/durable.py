"""Files and directories that survive a power failure."""

import os
from pathlib import Path


def flush_directory(directory: Path) -> None:
    """Flush a directory: new names and renames in it are durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
