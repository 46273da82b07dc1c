"""The real file system. `world.disk`.

* Reads that must not wait ask the page cache only (`preadv2` with RWF_NOWAIT).
* Flushes run on one thread per kind of work, never on the loop: at most a handful are under way.
* Results come back on the loop.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from headrace.server.threads import Workers
from headrace.world.disk import Buffer, DiskFile

T = TypeVar("T")

_PARTS_MAX = 1000
"""Below IOV_MAX (1024 on Linux)."""
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_CACHED = {errno.EAGAIN, errno.EWOULDBLOCK}
_NOWAIT_UNKNOWN = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class RealFile:
    """One open file. `world.disk.DiskFile`."""

    __slots__ = ("_cached_flags", "_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._cached_flags = _RWF_NOWAIT

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def size(self) -> int:
        """Bytes the file holds now."""
        return os.fstat(self._fd).st_size

    def mtime_ms(self) -> int:
        """Last modification, milliseconds since 1970."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` from `position`; return their size."""
        if len(parts) == 1:
            wanted = len(parts[0])
            if os.pwrite(self._fd, parts[0], position) == wanted:
                return wanted
        return _write_all(self._fd, position, parts)

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Up to `size` bytes if the page cache holds them all, else None."""
        buffer = bytearray(size)
        try:
            got = os.preadv(self._fd, [buffer], position, self._cached_flags)
        except OSError as problem:
            if problem.errno in _NOT_CACHED:
                return None
            if problem.errno not in _NOWAIT_UNKNOWN or not self._cached_flags:
                raise
            # A file system that cannot say (tmpfs is one) is taken for memory.
            self._cached_flags = 0
            return self.read_cached(position, size)
        if got == size:
            return buffer
        if position + got < os.fstat(self._fd).st_size:
            return None
        return memoryview(buffer)[:got]

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, waiting for the disk; shorter only at the file's end."""
        got = os.pread(self._fd, size, position)
        if len(got) == size or not got:
            return got
        parts = [got]
        have = len(got)
        while have < size:
            more = os.pread(self._fd, size - have, position + have)
            if not more:
                break
            parts.append(more)
            have += len(more)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """fdatasync, blocking."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _write_all(fd: int, position: int, parts: Sequence[Buffer]) -> int:
    total = sum(map(len, parts))
    views = [memoryview(part) for part in parts]
    written = 0
    while views:
        count = os.pwritev(fd, views[:_PARTS_MAX], position + written)
        written += count
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]
        elif views and written < total and not len(views[0]):
            views.pop(0)
    return written


class RealDisk:
    """The file system below the log directories. `world.disk.Disk`."""

    def __init__(self, workers: Workers, strategy: str = "auto") -> None:
        """`strategy` (log.flush.strategy): fdatasync, syncfs, or auto by the number of files."""
        self._workers = workers
        self._syncfs_from = {"fdatasync": 1 << 62, "syncfs": 1, "auto": SYNCFS_FROM}[strategy]

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open, and create where `create`."""
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT
        return RealFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory."""
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        """Create it and its parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Atomic replace."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it."""
        import shutil  # rarely needed, and slow to import: start-up counts

        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        """Make renames and new names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, path: str, content: bytes) -> None:
        """Atomic and durable replace of a file's content."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(fd, 0, [content])
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> int:
        """What an ordinary user may still write there."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def lock(self, path: str) -> Callable[[], None]:
        """Lock the file exclusively; BlockingIOError where another holds it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Java locks with fcntl records: taking both keeps a Kafka out as well.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return lambda: os.close(fd)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Make what was written to `files` durable on the flush thread, then `done` on the loop."""
        fds = [file.fileno() for file in files]
        if len(fds) >= self._syncfs_from:
            self._workers.flush(lambda: _syncfs(fds), done)
        else:
            self._workers.flush(lambda: _fdatasync(fds), done)

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do blocking `work` on a thread, then `done` on the loop with result or error."""
        self._workers.run(work, done)


SYNCFS_FROM = 8
"""From how many files on one syncfs is cheaper than an fdatasync each (measured on ext4: 100 files
of 1 KB take 8-14 ms by fdatasync, 0.8 ms by syncfs)."""


def _fdatasync(fds: Sequence[int]) -> None:
    for fd in fds:
        os.fdatasync(fd)


def _syncfs(fds: Sequence[int]) -> None:
    """One syncfs for each file system the files are on.

    syncfs reports errors of write-back only since Linux 5.8, and there it does for any file of the
    file system: an error not of ours fences too early rather than too late.
    """
    import ctypes  # needed from the first flush of many files on, not at start

    libc = ctypes.CDLL(None, use_errno=True)
    devices = {os.fstat(fd).st_dev: fd for fd in fds}
    for fd in devices.values():
        if libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
