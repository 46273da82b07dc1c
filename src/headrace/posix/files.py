"""`RealFile`: a file of the operating system. Implements `ports.disk.DiskFile`.

Its descriptor may be closed while the file is unused (`open_files`). Writes of a pass are delayed
and performed at its end (`disk`), by the loop or by a thread (`append_writer`); any other operation
on the file waits for them.
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
"""Most buffers of one pwritev call; below IOV_MAX (1024 on Linux)."""
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_CACHED = {errno.EAGAIN, errno.EWOULDBLOCK}
_NOWAIT_UNKNOWN = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class RealFile:
    """An open file. Implements `ports.disk.DiskFile`."""

    __slots__ = (
        "_cached_flags", "_closed", "_fd", "_files", "_flags", "_held", "_held_at", "_held_end",
        "_identity", "failure", "path", "pins", "unflushed", "used", "writing",
    )  # fmt: skip

    def __init__(self, path: str, fd: int, files: "OpenFiles", flags: int = os.O_RDWR) -> None:
        """Take over descriptor `fd`; `flags` are for reopening the file."""
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
        """Number of threads and flushes that use the descriptor."""
        self.used = False
        """Whether the file was used since `give_up` last looked at it."""
        self.failure: OSError | None = None
        """The error of a flush by `OpenFiles`, for the next caller of a flush."""
        self.unflushed = 0
        """Bytes written since the last flush began."""
        self.writing: Event | None = None
        """Set once a thread has written the data passed to it; None if no data was passed."""
        files.opened(self)

    def descriptor(self) -> int:
        """Return the descriptor, reopening the file if necessary. Raises OSError."""
        if self._fd >= 0:
            return self._fd
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        fd = os.open(self.path, self._flags)
        if _identity(fd) != self._identity:
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "the path now names another file", self.path)
        self._fd = fd
        self._files.opened(self)
        return fd

    @property
    def device(self) -> int:
        """Device number of the file's file system."""
        return self._identity[0]

    @property
    def writable(self) -> bool:
        """Whether the file is open for writing."""
        return bool(self._flags & os.O_RDWR)

    def give_up(self) -> int:
        """Return the descriptor, for the caller to close; -1 if it is still needed."""
        used, self.used = self.used, False
        if used or self.pins or self.unflushed or self._held or self.failure is not None:
            return -1
        fd, self._fd = self._fd, -1
        return fd

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        """Call `function` with the descriptor, which stays open during the call on any thread."""
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
        """Size in bytes of the last delayed writes, performed or not."""
        return self._held_end - self._held_at

    def take_held(self) -> tuple[int, list[bytes]]:
        """Remove the delayed writes; return their file position and copies of their bytes."""
        held, self._held = self._held, []
        return self._held_at, [bytes(part) for part in held]

    def settle(self) -> None:
        """Wait until all writes are in the page cache. OSError, as `write_held`."""
        writing = self.writing
        if writing is not None:
            writing.wait()
            if get_ident() == self._files.owner:
                self.writing = None
        if self._held:
            self.write_held()

    def write_held(self) -> None:
        """Perform the delayed writes. OSError: none of them counts, and the file is truncated."""
        if not self._held or get_ident() != self._files.owner:
            return
        held, self._held = self._held, []
        fd = self.descriptor()
        try:
            write_all(fd, self._held_at, held)
        except OSError as error:
            if self._files.active:  # answers of the pass may depend on it
                self._files.lost.append((self.path, error))
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._held_at)
            raise

    def fileno(self) -> int:
        """Return the descriptor, valid until the loop's next turn unless pinned."""
        self.used = True
        return self.descriptor()

    def size(self) -> int:
        """Return the file's size in bytes."""
        self.settle()
        return int(self._call(os.fstat).st_size)

    def mtime_ms(self) -> int:
        """Return the modification time in milliseconds since 1970."""
        return int(self._call(os.fstat).st_mtime_ns) // 1_000_000

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Set the modification time, in milliseconds since 1970."""
        times = (mtime_ms * 1_000_000, mtime_ms * 1_000_000)
        self._call(lambda fd: os.utime(fd, ns=times))

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` from byte `position`; return their size."""
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
        """Return up to `size` bytes if the page cache has them all, else None."""
        buffer = bytearray(size)
        got = self._read_nowait(position, buffer)
        if got == size:
            return buffer
        if got < 0 or position + got < self.size():
            return None
        return memoryview(buffer)[:got]

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Fill `into` with cached bytes from `position` on; return how many."""
        return max(self._read_nowait(position, into), 0)

    def _read_nowait(self, position: int, into: Buffer) -> int:
        """Fill `into` from the page cache; return how many bytes, -1 if not even the first is
        cached."""
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
            # A file system without support, such as tmpfs, counts as memory.
            self._cached_flags = 0
            return self._read_nowait(position, into)
        return got

    def cached(self, position: int, size: int) -> bool | None:
        """Return whether the page cache has all these bytes; None if unknown or during writes."""
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
        """Send bytes to a socket by sendfile; return how many it accepted."""
        self.used = True
        try:
            return os.sendfile(socket, self.descriptor(), position, size)
        except BlockingIOError:
            return 0

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, blocking for the disk; fewer only at the file's end."""
        self.settle()
        found: bytes = self._call(_read_all, position, size)
        return found

    def forget(self, position: int, size: int) -> None:
        """Drop the bytes from the page cache (posix_fadvise DONTNEED), if supported."""
        if hasattr(os, "posix_fadvise"):
            self._call(os.posix_fadvise, position, size, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        """Shorten or extend the file to `size` bytes."""
        self.settle()
        self._call(os.ftruncate, size)

    def sync(self) -> None:
        """Flush the file by fdatasync; blocking."""
        self.settle()
        if self.failure is not None:
            raise self.failure
        self._call(os.fdatasync)
        self.unflushed = 0

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
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
    # A short write, or too many parts: repeat from the start, in as many calls as necessary.
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
