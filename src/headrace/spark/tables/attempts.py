"""Lists of files by attempt: a task lists each file under its attempt before it creates the file.

    <table>/_headrace/attempts/<pipeline's digest>-<batch>-<uuid>      one relative path a line

A commit deletes the lists of the attempts that it commits. The files in other lists of its batch
and of earlier ones belong to attempts that died, lost to a speculative copy or were repeated. They
are deleted unless the table holds them, which is checked only if such lists exist.
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
"""Directory below a table's location; readers of directories skip names that begin with `_`."""
ABANDONED_SECONDS = 24 * 3600
"""Age in seconds at which files of a batch job without txnAppId count as a dead job's."""
_log = logging.getLogger(__name__)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on a directory, across all processes that share the disk."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Attempt:
    """The files of one attempt at a task."""

    def __init__(self, location: Path, pipeline: str, batch: int | None) -> None:
        """Choose the attempt's name; no file is created. `batch` None: a batch job without
        txnVersion."""
        number = "" if batch is None else batch
        self.name = f"{_digest(pipeline)}-{number}-{uuid.uuid4().hex}"
        self._list = _directory(location) / self.name

    def register(self, path: str) -> None:
        """List a file before it is created; opens the list each time, as a sweep may have deleted
        it.

        FileNotFoundError if the table's location was deleted: it is not created again.
        """
        for directory in (self._list.parent.parent, self._list.parent):
            directory.mkdir(exist_ok=True)
        with self._list.open("a") as names:
            names.write(path + "\n")


def forget(location: Path, attempts: Collection[str]) -> None:
    """Delete the lists of committed attempts."""
    for attempt in attempts:
        (_directory(location) / attempt).unlink(missing_ok=True)


def sweep(
    location: Path, pipeline: str, batch: int | None, held: Callable[[], Collection[str]]
) -> list[str]:
    """Delete files of dead attempts at this batch and earlier ones; return the deleted paths.

    `held`: returns the paths that the table holds; called only if there is anything to delete.
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
        _log.info("%s: deleted %d files that no commit added", location, len(deleted))
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
