"""The file system for those who only look: `ports.disk.Disk` without a way to change anything.

A disk that does change things looks the same way (`LookUps`): `posix.disk`.
"""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from headrace.ports.disk import Buffer, DiskFile, Stat


def _refused(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


class ReadOnlyFile:
    """One file, open for reading. Safe for several threads."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str) -> None:
        """FileNotFoundError, OSError."""
        self._fd = -1
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def size(self) -> int:
        """Return the bytes that the file holds now."""
        return os.fstat(self._fd).st_size

    def mtime_ms(self) -> int:
        """Return the time of the last modification in milliseconds since 1970."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; shorter only at the file's end."""
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.read_into(memoryview(buffer), position)])

    def read_cached(self, position: int, size: int) -> bytes:
        """Read as `read` does: here everybody may wait."""
        return self.read(position, size)

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Read into `into` as `read` does."""
        return self.read_into(into, position)

    def cached(self, position: int, size: int) -> None:
        """Return None: nobody asks."""

    def send(self, position: int, size: int, socket: int) -> int:
        """Refuse with OSError."""
        _refused(self.path)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` on; returns how much there was."""
        done = 0
        while done < len(buffer):
            got = os.preadv(self._fd, [buffer[done:]], position + done)
            if got == 0:
                break
            done += got
        return done

    def close(self) -> None:
        """Close; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Refuse with OSError."""
        _refused(self.path)

    def write_held(self) -> None:
        """Do nothing: no write is held back."""

    def forget(self, position: int, size: int) -> None:
        """Do nothing: the page cache is left to those who write."""

    def truncate(self, size: int) -> None:
        """Refuse with OSError."""
        _refused(self.path)

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Refuse with OSError."""
        _refused(self.path)

    def sync(self) -> None:
        """Refuse with OSError."""
        _refused(self.path)


class LookUps:
    """What a disk is asked that changes nothing: `ports.disk.Disk`, in part."""

    def exists(self, path: str) -> bool:
        """Tell whether there is anything at `path`."""
        return os.path.exists(path)

    def stat(self, path: str) -> Stat | None:
        """Return the size and the time of the last change."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return Stat(found.st_size, found.st_mtime_ns)

    def list(self, path: str) -> "list[str]":
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        """Tell whether `path` is a directory."""
        return os.path.isdir(path)

    def free_bytes(self, path: str) -> int:
        """Return the bytes that an ordinary user may still write there."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system that holds `path`."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize


class ReadOnlyDisk(LookUps):
    """`ports.disk.Disk`, of which everything that would change something is an OSError."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open for reading, whatever was asked; FileNotFoundError."""
        return ReadOnlyFile(path)

    def make_directory(self, path: str) -> None:
        """Refuse with OSError."""
        _refused(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse with OSError."""
        _refused(source)

    def remove(self, path: str) -> None:
        """Refuse with OSError."""
        _refused(path)

    def remove_tree(self, path: str) -> None:
        """Refuse with OSError."""
        _refused(path)

    def sync_directory(self, path: str) -> None:
        """Refuse with OSError."""
        _refused(path)

    def sync_directories(self, paths: Collection[str]) -> None:
        """Refuse with OSError."""
        _refused(", ".join(paths))

    def sync_all(self, path: str) -> None:
        """Refuse with OSError."""
        _refused(path)

    def absolute(self, path: str) -> str:
        """Return the path from the root on."""
        return os.path.abspath(path)

    def boot_id(self) -> str:
        """Return "": of no use to who only looks."""
        return ""

    def replace(self, path: str, content: bytes) -> None:
        """Refuse with OSError."""
        _refused(path)

    def lock(self, path: str) -> Callable[[], None]:
        """Refuse with OSError: who only looks takes no lock."""
        _refused(path)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Refuse with OSError."""
        _refused("flush")

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Do it here and now."""
        done(work())
