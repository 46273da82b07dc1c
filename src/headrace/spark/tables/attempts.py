"""Lists of files by attempt: each file is named in its attempt's list before it is made.

    <table>/_headrace/attempts/<pipeline's digest>-<batch>-<uuid>      one relative path a line

A commit takes the lists of the attempts that it commits away. What is in other lists of its batch
and of earlier ones was left by attempts that died, lost a speculation or were repeated: the files
are deleted, unless the table holds them, which is asked only where such lists are.
"""

import fcntl
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from headrace.spark.tables.errors import TableError

OWN_DIRECTORY = "_headrace"
"""Below a table's location; readers of directories pass over names that begin so."""
ABANDONED_SECONDS = 24 * 3600
"""Age from which the files of a batch job without txnAppId are taken for a dead one's."""
_log = logging.getLogger(__name__)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of one of our directories, among all processes that share the disk."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Attempt:
    """The files of one task's attempt."""

    def __init__(self, location: Path, pipeline: str, batch: int | None) -> None:
        """`batch`: None for a batch job that nobody repeats by number."""
        number = "" if batch is None else batch
        self.name = f"{_digest(pipeline)}-{number}-{uuid.uuid4().hex}"
        self._list = _directory(location) / self.name

    def register(self, path: str) -> None:
        """Name a file that is about to be made; by path each time, as a sweep may come between.

        FileNotFoundError where the table's location has gone: it is not made anew.
        """
        for directory in (self._list.parent.parent, self._list.parent):
            directory.mkdir(exist_ok=True)
        with self._list.open("a") as names:
            names.write(path + "\n")


def forget(location: Path, attempts: Collection[str]) -> None:
    """Take the lists of committed attempts away."""
    for attempt in attempts:
        (_directory(location) / attempt).unlink(missing_ok=True)


def sweep(
    location: Path, pipeline: str, batch: int | None, held: Callable[[], Collection[str]]
) -> list[str]:
    """Delete what attempts at this batch and earlier ones left; returns the paths deleted.

    `held`: the paths that the table holds, asked where there is anything to delete.
    """
    left = [name for name in _dead(location, pipeline, batch) if name.is_file()]
    if not left:
        return []
    keep = set(held())
    deleted = []
    for attempt in left:
        for path in filter(None, attempt.read_text().splitlines()):
            if path in keep or not _within(location, path):
                continue
            with suppress(FileNotFoundError):
                (location / path).unlink()
                deleted.append(path)
        attempt.unlink(missing_ok=True)
    if deleted:
        _log.warning("%s: %d files of dead attempts deleted", location, len(deleted))
    return deleted


def _dead(location: Path, pipeline: str, batch: int | None) -> list[Path]:
    if not _directory(location).is_dir():
        return []
    own, found = _digest(pipeline), []
    for attempt in _directory(location).iterdir():
        parts = attempt.name.rsplit("-", 2)
        if len(parts) != 3:
            continue
        if parts[1]:
            if batch is not None and parts[0] == own and int(parts[1]) <= batch:
                found.append(attempt)
        elif time.time() - attempt.stat().st_mtime > ABANDONED_SECONDS:
            found.append(attempt)
    return found


def _within(location: Path, path: str) -> bool:
    inside = not Path(path).is_absolute() and ".." not in Path(path).parts
    if not inside:
        raise TableError(f"{_directory(location)}: {path!r} names a file outside of the table")
    return inside


def _directory(location: Path) -> Path:
    return location / OWN_DIRECTORY / "attempts"


def _digest(pipeline: str) -> str:
    return blake2b(pipeline.encode(), digest_size=6).hexdigest()
