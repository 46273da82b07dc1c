"""The lock of a pipeline: one run at a time writes its tables.

The kernel releases the lock when its process ends, however it ends. The file's content names the
holder and is only valid while the lock is held.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.posix.kernel.held_file import held_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TRIES = 5
_PAUSE_SECONDS = 0.05


class HeldError(HeadraceError):
    """Another run holds the pipeline; the text names it."""


@dataclass(frozen=True)
class Holder:
    """The run that holds a pipeline."""

    run: str
    pid: int
    host: str
    since: str
    """Start of the run in UTC, ISO 8601."""

    def __str__(self) -> str:
        return f"run {self.run} on {self.host} (pid {self.pid}), since {self.since}"


@contextmanager
def held(path: Path, holder: Holder) -> Iterator[None]:
    """Hold the lock file `path` as `holder`. HeldError if another process holds it; OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode() + b"\n", 0)
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of the locked file.

    A reader of the holder locks the file for an instant, so a refused lock is tried again. A file
    that was deleted in between is no lock, so the name must still be that of the locked file.
    """
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    named = _holder(held_content(path) or b"")
    raise HeldError(f"the pipeline is held by {named or 'another run'}: {path}")


def holder_of(path: Path) -> Holder | None:
    """Return the run that holds the lock file; None if no run does. OSError."""
    content = held_content(path)
    return None if content is None else _holder(content) or Holder("unknown", 0, "unknown", "")


def _holder(content: bytes) -> Holder | None:
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None
