"""`ReadOnlyDisk`: a `ports.disk.Disk` that refuses all changes.

`posix.disk` shares the reading part (`LookUps`).
"""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from headrace.ports.disk import Buffer, DiskFile, Stat


def _refused(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


class ReadOnlyFile:
    """A file open for reading. Safe for several threads."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str) -> None:
        """Open the file at `path`. Raises FileNotFoundError, OSError."""
        self._fd = -1
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def size(self) -> int:
        """Return the file's size in bytes."""
        return os.fstat(self._fd).st_size

    def mtime_ms(self) -> int:
        """Return the modification time in milliseconds since 1970."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the file's end."""
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.read_into(memoryview(buffer), position)])

    def read_cached(self, position: int, size: int) -> bytes:
        """Return bytes as `read` does, blocking: users of this disk may block."""
        return self.read(position, size)

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Fill `into` as `read_into` does, blocking."""
        return self.read_into(into, position)

    def cached(self, position: int, size: int) -> None:
        """Return None, as it is unknown which bytes are cached."""

    def send(self, position: int, size: int, socket: int) -> int:
        """Raise OSError, as nothing is sent from a read-only disk."""
        _refused(self.path)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position` on; return how many bytes were read."""
        done = 0
        while done < len(buffer):
            got = os.preadv(self._fd, [buffer[done:]], position + done)
            if got == 0:
                break
            done += got
        return done

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Raise OSError: the file is read-only."""
        _refused(self.path)

    def write_held(self) -> None:
        """Do nothing: no writes are delayed."""

    def forget(self, position: int, size: int) -> None:
        """Do nothing: the page cache is the broker's."""

    def truncate(self, size: int) -> None:
        """Raise OSError: the file is read-only."""
        _refused(self.path)

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Raise OSError: the file is read-only."""
        _refused(self.path)

    def sync(self) -> None:
        """Raise OSError: the file is read-only."""
        _refused(self.path)


class LookUps:
    """The reading functions of a disk: a part of `ports.disk.Disk`."""

    def exists(self, path: str) -> bool:
        """Return whether `path` exists."""
        return os.path.exists(path)

    def stat(self, path: str) -> Stat | None:
        """Return size and change time of `path`, or None if it does not exist."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return Stat(found.st_size, found.st_mtime_ns)

    def list(self, path: str) -> "list[str]":
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return os.path.isdir(path)

    def free_bytes(self, path: str) -> int:
        """Return the bytes available to an ordinary user in the file system of `path`."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size in bytes of the file system of `path`."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize


class ReadOnlyDisk(LookUps):
    """A `ports.disk.Disk` on which every change raises OSError."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file for reading, whatever was requested; raises FileNotFoundError."""
        return ReadOnlyFile(path)

    def make_directory(self, path: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def rename(self, source: str, target: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(source)

    def remove(self, path: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def remove_tree(self, path: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def sync_directory(self, path: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def sync_directories(self, paths: Collection[str]) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(", ".join(paths))

    def sync_all(self, path: str) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def absolute(self, path: str) -> str:
        """Return the absolute path."""
        return os.path.abspath(path)

    def boot_id(self) -> str:
        """Return "": the boot id is not needed for reading."""
        return ""

    def replace(self, path: str, content: bytes) -> None:
        """Raise OSError: the disk is read-only."""
        _refused(path)

    def lock(self, path: str) -> Callable[[], None]:
        """Raise OSError: a read-only disk takes no lock."""
        _refused(path)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Raise OSError: the disk is read-only."""
        _refused("flush")

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `work` now, then `done` with its result."""
        done(work())
