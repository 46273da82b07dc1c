"""`LocalListening`: a Unix socket for this machine's user.

The path is accessed through its directory's descriptor (`/proc/self/fd/N/name`), as a socket path
is limited to 107 bytes.
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
    """A listening Unix socket. Implements `ports.network.Listening`."""

    port = 0

    def __init__(self, path: str, bound: socket.socket, backlog: int) -> None:
        """Make a listening Unix socket of a bound one; callers use `bind`."""
        self._path = path
        self._bound = bound
        self._backlog = backlog
        self._identity = _identity(os.lstat(path))
        self._server: asyncio.Server | None = None

    @classmethod
    def bind(cls, path: str, backlog: int) -> "LocalListening":
        """Bind `path` and listen, replacing a socket left by a stopped process. Raises OSError."""
        path = os.path.abspath(path)
        with _reached(path) as reached:
            _check_directory(os.path.dirname(path))
            _make_room(reached)
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # bind creates the file with the socket's own mode, so it never has a wider one.
                os.fchmod(bound.fileno(), MODE)
                bound.setblocking(False)
                bound.bind(reached)
                bound.listen(backlog)
                return cls(path, bound, backlog)
            except OSError:
                bound.close()
                raise

    async def accept(self, made: Callable[[], Any]) -> None:
        """Start accepting; `made` makes the protocol of each connection."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            made, sock=self._bound, backlog=self._backlog, **_KEEPS_FILE
        )

    def close(self) -> None:
        """Stop accepting and remove the file if it is still this socket's; open connections
        stay."""
        if self._server is not None:
            self._server.close()
        self._bound.close()
        with contextlib.suppress(OSError):
            if _identity(os.lstat(self._path)) == self._identity:
                os.unlink(self._path)


@contextlib.contextmanager
def _reached(path: str) -> Iterator[str]:
    """Provide a short path to `path` within the `with` block."""
    descriptor = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{os.path.basename(path)}"
    finally:
        os.close(descriptor)


def _check_directory(directory: str) -> None:
    """Raise OSError if other users could replace the socket by their own."""
    status = os.stat(directory)
    if status.st_uid not in {0, os.geteuid()}:
        raise OSError(errno.EPERM, f"its directory belongs to user {status.st_uid}: use your own")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise OSError(errno.EPERM, f"its directory is writable by all: chmod o-w {directory}")


def _make_room(path: str) -> None:
    """Remove a socket that no process listens on; OSError if anything else exists there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "the path exists and is not a socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(errno.EADDRINUSE, f"the socket exists: {reason}") from None
    raise OSError(
        errno.EADDRINUSE, "a running process listens on it: stop that, or use another path"
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return (status.st_dev, status.st_ino)
