"""The real file system. `world.disk`.

* Within one pass of a connection (`begin_gather` … `end_gather`) writes to the end of a file are
  gathered and handed over in one call: a system call that gives up the interpreter's lock costs
  more than the small batch it writes.
* Reads that must not wait ask the page cache only (`preadv2` with RWF_NOWAIT).
* Flushes run on one thread per kind of work, never on the loop: at most a handful are under way.
* Results come back on the loop.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Collection, Sequence
from threading import get_ident
from typing import TypeVar

from headrace.model.invariant import InvariantError
from headrace.server.flushes import FLUSHES
from headrace.server.threads import Workers
from headrace.world.disk import Buffer, DiskFile

T = TypeVar("T")

_PARTS_MAX = 1000
"""Below IOV_MAX (1024 on Linux)."""
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_CACHED = {errno.EAGAIN, errno.EWOULDBLOCK}
_NOWAIT_UNKNOWN = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class _Gather:
    """Which files hold writes back now."""

    __slots__ = ("active", "files", "owner")

    def __init__(self) -> None:
        self.active = False
        self.owner = get_ident()
        """The deciding thread: others read what has been flushed, and never write what is held."""
        self.files: list[RealFile] = []


class RealFile:
    """One open file. `world.disk.DiskFile`."""

    __slots__ = (
        "_cached_flags",
        "_fd",
        "_gather",
        "_held",
        "_held_at",
        "_held_end",
        "path",
        "unflushed",
    )

    def __init__(self, path: str, fd: int, gather: _Gather) -> None:
        self.path = path
        self._fd = fd
        self._cached_flags = _RWF_NOWAIT
        self._gather = gather
        self._held: list[Buffer] = []
        self._held_at = self._held_end = 0
        self.unflushed = 0
        """Bytes written since the last flush began."""

    def write_held(self) -> None:
        """Write what was held back. OSError: then nothing of it counts, and the file is cut."""
        if not self._held or get_ident() != self._gather.owner:
            return
        held, self._held = self._held, []
        try:
            _write_all(self._fd, self._held_at, held)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._held_at)
            raise

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def size(self) -> int:
        """Bytes the file holds now."""
        self.write_held()
        return os.fstat(self._fd).st_size

    def mtime_ms(self) -> int:
        """Last modification, milliseconds since 1970."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Change that time."""
        os.utime(self._fd, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` from `position`; return their size."""
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self.unflushed += size
        if self._gather.active:
            held = self._held
            if not held:
                self._held_at = position
                self._gather.files.append(self)
            elif position != self._held_end:
                self.write_held()
                self._held_at = position
                held = self._held
            held.extend(parts)
            self._held_end = position + size
            return size
        if self._held:
            self.write_held()
        if len(parts) == 1 and os.pwrite(self._fd, parts[0], position) == size:
            return size
        return _write_all(self._fd, position, parts)

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Up to `size` bytes if the page cache holds them all, else None."""
        if self._held:
            self.write_held()
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
        if self._held:
            self.write_held()
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
        self.write_held()
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """fdatasync, blocking."""
        self.write_held()
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close; a second call does nothing."""
        self.write_held()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _write_all(fd: int, position: int, parts: Sequence[Buffer]) -> int:
    total = sum(map(len, parts))
    if len(parts) <= _PARTS_MAX and os.pwritev(fd, parts, position) == total:
        return total
    # Short, or too many at once: written again from the start, as much as goes at a time.
    views = [memoryview(part) for part in parts if len(part)]
    written = 0
    while views:
        count = os.pwritev(fd, views[:_PARTS_MAX], position + written)
        if count <= 0:
            raise OSError(errno.EIO, "nothing was written")
        written += count
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]
    return written


def in_use(path: str) -> bool:
    """Whether a process holds the lock file `path`, ours or a Kafka. Writes nothing. OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class RealDisk:
    """The file system below the log directories. `world.disk.Disk`."""

    def __init__(self, workers: Workers | None, strategy: str = "auto") -> None:
        """`strategy` (log.flush.strategy): fdatasync, syncfs, or auto by the number of files.

        Without `workers` (tools, which have no loop) `run` works at once; there is no `flush`.
        """
        self._workers = workers
        self._gather = _Gather()
        self._strategy = FLUSHES[strategy]()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open, and create where `create`."""
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT
        return RealFile(path, os.open(path, flags, 0o644), self._gather)

    def begin_gather(self) -> None:
        """From now on hold writes back: the buffers written must stay as they are until the end."""
        self._gather.active = True

    def end_gather(self) -> list[tuple[str, OSError]]:
        """Write all that was held back; what failed, by path, and nothing else was lost."""
        gather = self._gather
        gather.active = False
        if not gather.files:
            return []
        files, gather.files = gather.files, []
        failed = []
        for file in files:
            try:
                file.write_held()
            except OSError as error:
                failed.append((file.path, error))
        return failed

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
        workers = self._workers
        if workers is None:
            raise InvariantError("a disk without workers was asked to flush")
        fds = []
        size = 0
        for file in files:
            if isinstance(file, RealFile):
                file.write_held()
                size += file.unflushed
                file.unflushed = 0
            fds.append(file.fileno())
        workers.flush(lambda: self._strategy.flush(fds, size), done)

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do blocking `work` on a thread, then `done` on the loop with result or error."""
        if self._workers is None:
            done(work())
        else:
            self._workers.run(work, done)
