"""The pid file: the process that serves a log directory.

Its process holds a lock on it. A file without a lock is left over from a process that has ended,
whatever number it contains.
"""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from headrace.posix.kernel.held_file import held_content

NAME = "headrace.pid"


def default_pid_path(log_dirs: Sequence[str]) -> Path:
    """Return the path in the first log directory, so that directory suffices to stop the broker."""
    return Path(log_dirs[0]) / NAME


class PidFile:
    """The pid file of this process, which holds a lock on it while it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def take(self) -> None:
        """Write this process's id and hold the lock.

        BlockingIOError if another process holds it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def give_up(self) -> None:
        """Remove the file and release the lock; no effect if it is not held."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def holder(path: Path) -> int | None:
    """Return the id of the process that holds the pid file, or None."""
    content = held_content(path)
    text = "" if content is None else content.decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
