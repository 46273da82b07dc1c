"""A Unix socket for this machine's own user: taken, listened on, and removed at the end.

Paths are taken by their directory's descriptor (`/proc/self/fd/N/name`): a socket's path may have
107 bytes, a directory's may have more.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

MODE = 0o600
_PROBE_SECONDS = 1.0
_KEEPS_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""From Python 3.13 on event loops remove a socket's file themselves. They look for it by the path
that `bind` took, whose descriptor is closed by then and may have become another file's."""


class LocalListening:
    """A Unix socket that is listened on. `ports.network.Listening`."""

    port = 0

    def __init__(self, path: str, bound: socket.socket, backlog: int) -> None:
        """Use `bind`."""
        self._path = path
        self._bound = bound
        self._backlog = backlog
        self._identity = _identity(os.lstat(path))
        self._server: asyncio.Server | None = None

    @classmethod
    def bind(cls, path: str, backlog: int) -> "LocalListening":
        """Take `path`, in place of what a process that is gone left there; OSError."""
        path = os.path.abspath(path)
        with _reached(path) as reached:
            _check_directory(os.path.dirname(path))
            _make_room(reached)
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # What is made by bind has the socket's own mode: at no time a wider one.
                os.fchmod(bound.fileno(), MODE)
                bound.setblocking(False)
                bound.bind(reached)
                bound.listen(backlog)
                return cls(path, bound, backlog)
            except OSError:
                bound.close()
                raise

    async def accept(self, made: Callable[[], Any]) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            made, sock=self._bound, backlog=self._backlog, **_KEEPS_FILE
        )

    def close(self) -> None:
        """Accept no more, and remove the file if it is still ours. Connections there are stay."""
        if self._server is not None:
            self._server.close()
        self._bound.close()
        with contextlib.suppress(OSError):
            if _identity(os.lstat(self._path)) == self._identity:
                os.unlink(self._path)


@contextlib.contextmanager
def _reached(path: str) -> Iterator[str]:
    """Lend a short path by which `path` is reached."""
    descriptor = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{os.path.basename(path)}"
    finally:
        os.close(descriptor)


def _check_directory(directory: str) -> None:
    """Raise OSError where others could put a socket of their own in the place of ours."""
    status = os.stat(directory)
    if status.st_uid not in {0, os.geteuid()}:
        raise OSError(errno.EPERM, f"its directory is user {status.st_uid}'s: name one of your own")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise OSError(errno.EPERM, f"all may write to its directory: chmod o-w {directory}")


def _make_room(path: str) -> None:
    """Remove a socket that nobody listens on any more; OSError where anything else is there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "something that is no socket is there: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(errno.EADDRINUSE, f"a socket is there, and {reason}") from None
    raise OSError(errno.EADDRINUSE, "a running process listens there: stop it, or name another")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return (status.st_dev, status.st_ino)
