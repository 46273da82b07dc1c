"""A reader's own log: its lines, counted before they are fed."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class LogFile:
    """A file of lines, gzip if its name ends in `.gz`; it may grow while it is read."""

    path: Path
    count: int

    @classmethod
    def of(cls, path: Path) -> LogFile:
        """Count the lines of a file. OSError; ValueError for a file without lines."""
        with _opened(path) as file:
            count = sum(1 for _ in file)
        if not count:
            raise ValueError(f"{path} has no lines")
        return cls(path, count)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that were counted, without their newlines."""
        with _opened(self.path) as file:
            for line, _ in zip(file, range(self.count), strict=False):
                yield line.rstrip(b"\r\n")


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
