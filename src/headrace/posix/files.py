"""One file of the real file system. `ports.disk.DiskFile`.

Its descriptor may be given up while nobody uses it (`open_files`). Writes of one pass are held back
and done at the pass's end (`disk`), by the loop or by a thread (`writer`); whatever else is done
with the file waits for them.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from threading import Event, get_ident
from typing import TYPE_CHECKING, Any

from headrace.ports.disk import Buffer

if TYPE_CHECKING:
    from headrace.posix.open_files import OpenFiles

_PARTS_MAX = 1000
"""Below IOV_MAX (1024 on Linux)."""
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_CACHED = {errno.EAGAIN, errno.EWOULDBLOCK}
_NOWAIT_UNKNOWN = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class RealFile:
    """One file in use. `ports.disk.DiskFile`."""

    __slots__ = (
        "_cached_flags", "_closed", "_fd", "_files", "_flags", "_held", "_held_at", "_held_end",
        "_identity", "failure", "path", "pins", "unflushed", "used", "writing",
    )  # fmt: skip

    def __init__(self, path: str, fd: int, files: "OpenFiles", flags: int = os.O_RDWR) -> None:
        """Open as `fd`; `flags` open it again."""
        self.path = path
        self._fd = fd
        self._flags = flags
        self._identity = _identity(fd)
        self._closed = False
        self._cached_flags = _RWF_NOWAIT
        self._files = files
        self._held: list[Buffer] = []
        self._held_at = self._held_end = 0
        self.pins = 0
        """How many threads and flushes use the descriptor now."""
        self.used = False
        """Used since it was last looked at."""
        self.failure: OSError | None = None
        """What a flush by itself met, to be told to whoever asks for one."""
        self.unflushed = 0
        """Bytes written since the last flush began."""
        self.writing: Event | None = None
        """Set once a thread has written what was handed over to it; None: nothing was."""
        files.opened(self)

    def descriptor(self) -> int:
        """Return the descriptor, opened again where it was given up. OSError."""
        if self._fd >= 0:
            return self._fd
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        fd = os.open(self.path, self._flags)
        if _identity(fd) != self._identity:
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "another file has its name now", self.path)
        self._fd = fd
        self._files.opened(self)
        return fd

    @property
    def device(self) -> int:
        """The file system it lies on."""
        return self._identity[0]

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing too."""
        return bool(self._flags & os.O_RDWR)

    def give_up(self) -> int:
        """Give up the descriptor and return it, for its closing; -1 while it is needed."""
        used, self.used = self.used, False
        if used or self.pins or self.unflushed or self._held or self.failure is not None:
            return -1
        fd, self._fd = self._fd, -1
        return fd

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        """Call `function` with the descriptor, which stays open meanwhile whoever calls."""
        files = self._files
        if get_ident() == files.owner:
            self.used = True
            return function(self.descriptor(), *arguments)
        fd = files.pin(self)
        try:
            return function(fd, *arguments)
        finally:
            files.unpin(self)

    @property
    def held_bytes(self) -> int:
        """How many bytes were held back last, written or not."""
        return self._held_end - self._held_at

    def take_held(self) -> tuple[int, list[bytes]]:
        """Take what was held back, for somebody else to write: where, and copies of the parts."""
        held, self._held = self._held, []
        return self._held_at, [bytes(part) for part in held]

    def settle(self) -> None:
        """Wait until all that was written is in the page cache. OSError, as `write_held`."""
        writing = self.writing
        if writing is not None:
            writing.wait()
            if get_ident() == self._files.owner:
                self.writing = None
        if self._held:
            self.write_held()

    def write_held(self) -> None:
        """Write what was held back. OSError: then nothing of it counts, and the file is cut."""
        if not self._held or get_ident() != self._files.owner:
            return
        held, self._held = self._held, []
        fd = self.descriptor()
        try:
            write_all(fd, self._held_at, held)
        except OSError as error:
            if self._files.active:  # answers of the pass may count on it
                self._files.lost.append((self.path, error))
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._held_at)
            raise

    def fileno(self) -> int:
        """Return the descriptor; good until the loop's next turn unless it is pinned."""
        self.used = True
        return self.descriptor()

    def size(self) -> int:
        """Return the bytes that the file holds now."""
        self.settle()
        return int(self._call(os.fstat).st_size)

    def mtime_ms(self) -> int:
        """Return the time of the last modification in milliseconds since 1970."""
        return int(self._call(os.fstat).st_mtime_ns) // 1_000_000

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Change that time."""
        times = (mtime_ms * 1_000_000, mtime_ms * 1_000_000)
        self._call(lambda fd: os.utime(fd, ns=times))

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` from `position`; return their size."""
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self.unflushed += size
        files = self._files
        if files.active and get_ident() == files.owner:
            held = self._held
            if not held:
                self._held_at = position
                files.files.append(self)
            elif position != self._held_end:
                self.write_held()
                self._held_at = position
                held = self._held
            held.extend(parts)
            self._held_end = position + size
            return size
        if self._held:
            self.write_held()
        written: int = self._call(write_all, position, parts)
        return written

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Return up to `size` bytes if the page cache holds them all, else None."""
        buffer = bytearray(size)
        got = self._read_nowait(position, buffer)
        if got == size:
            return buffer
        if got < 0 or position + got < self.size():
            return None
        return memoryview(buffer)[:got]

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Fill `into` with what the page cache holds from `position` on; returns its size."""
        return max(self._read_nowait(position, into), 0)

    def _read_nowait(self, position: int, into: Buffer) -> int:
        """Fill `into` from the page cache.

        Returns the bytes, -1 where already the first is not there.
        """
        if self.writing is not None and not self.writing.is_set():
            return -1
        if self._held:
            self.write_held()
        try:
            got: int = self._call(os.preadv, [into], position, self._cached_flags)
        except OSError as problem:
            if problem.errno in _NOT_CACHED:
                return -1
            if problem.errno not in _NOWAIT_UNKNOWN or not self._cached_flags:
                raise
            # A file system that cannot say (tmpfs is one) is taken for memory.
            self._cached_flags = 0
            return self._read_nowait(position, into)
        return got

    def cached(self, position: int, size: int) -> bool | None:
        """Tell whether the page cache holds them all; None while writes are under way."""
        if self.writing is not None and not self.writing.is_set():
            return None
        residency = self._files.residency
        if residency is None:
            return None
        if self._held:
            self.write_held()
        found: bool | None = self._call(residency.holds, position, size)
        return found

    def send(self, position: int, size: int, socket: int) -> int:
        """Send by sendfile what the socket takes of the bytes now."""
        self.used = True
        try:
            return os.sendfile(socket, self.descriptor(), position, size)
        except BlockingIOError:
            return 0

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, waiting for the disk; shorter only at the file's end."""
        self.settle()
        found: bytes = self._call(_read_all, position, size)
        return found

    def forget(self, position: int, size: int) -> None:
        """Drop the bytes from the page cache (posix_fadvise DONTNEED), where that can be done."""
        if hasattr(os, "posix_fadvise"):
            self._call(os.posix_fadvise, position, size, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self.settle()
        self._call(os.ftruncate, size)

    def sync(self) -> None:
        """Flush by fdatasync, blocking."""
        self.settle()
        if self.failure is not None:
            raise self.failure
        self._call(os.fdatasync)
        self.unflushed = 0

    def close(self) -> None:
        """Close; a second call does nothing."""
        self.settle()
        self._closed = True
        self.unflushed = 0
        self._files.closed(self)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _read_all(fd: int, position: int, size: int) -> bytes:
    got = os.pread(fd, size, position)
    if len(got) == size or not got:
        return got
    parts = [got]
    have = len(got)
    while have < size:
        more = os.pread(fd, size - have, position + have)
        if not more:
            break
        parts.append(more)
        have += len(more)
    return b"".join(parts)


def write_all(fd: int, position: int, parts: Sequence[Buffer]) -> int:
    if len(parts) == 1:
        total = len(parts[0])
        if os.pwrite(fd, parts[0], position) == total:
            return total
    else:
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
