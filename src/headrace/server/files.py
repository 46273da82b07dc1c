"""Open files, a bounded number of them, however many are in use.

A `RealFile` stands for a file that somebody uses; its descriptor comes and goes. Once more than
`open_max` are open, those that were not used lately are closed, and opened again by their next use.
Never closed that way: a file under flush, one a thread reads or writes, one that holds writes back,
and one with unflushed bytes, for an error of write-back is told to descriptors that were open then.
Where only such files are left, the oldest are flushed, and then closed.
"""

import contextlib
import errno
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING, Any

from headrace.world.disk import Buffer

if TYPE_CHECKING:
    from headrace.server.threads import Workers

OPEN_MAX = 2000
_PARTS_MAX = 1000
"""Below IOV_MAX (1024 on Linux)."""
_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_CACHED = {errno.EAGAIN, errno.EWOULDBLOCK}
_NOWAIT_UNKNOWN = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_LOOKED_AT_MAX = 64
"""So many files are looked at, at most, to find one to close for one that is opened."""


def raise_limit() -> int:
    """Let the process have as many open files as the system allows; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard if hard >= 0 else sys.maxsize
    return soft if soft >= 0 else sys.maxsize


class OpenFiles:
    """The files of one disk that are open now, and which of them hold writes back."""

    __slots__ = (
        "_lock", "_named", "_relieving", "_ring", "_workers",
        "active", "files", "open_max", "owner",
    )  # fmt: skip

    def __init__(self, workers: "Workers | None" = None, open_max: int = OPEN_MAX) -> None:
        self._workers = workers
        self.open_max = open_max
        self.active = False
        """Whether writes are held back now."""
        self.owner = get_ident()
        """The deciding thread: others read what has been flushed, and never write what is held."""
        self.files: list[RealFile] = []
        """Those that hold writes back."""
        self._ring: OrderedDict[RealFile, None] = OrderedDict()
        # The one looked at longest ago comes first.
        self._named: dict[str, RealFile] = {}
        self._lock = Lock()
        self._relieving = False

    def __len__(self) -> int:
        return len(self._ring)

    def opened(self, file: "RealFile") -> None:
        """`file` has a descriptor now; another loses its own where there are too many."""
        # Room is made first, so that it is not the file's own descriptor that goes.
        if len(self._ring) >= self.open_max and get_ident() == self.owner:
            self._make_room()
        with self._lock:
            self._ring[file] = None
            # Whoever only looks on (the scrub) does not stand in for the one in use.
            if file.writable or file.path not in self._named:
                self._named[file.path] = file

    def closed(self, file: "RealFile") -> None:
        """`file` was closed by its user."""
        with self._lock:
            self._forget(file)

    def _forget(self, file: "RealFile") -> None:
        self._ring.pop(file, None)
        if self._named.get(file.path) is file:
            del self._named[file.path]

    def renamed(self, source: str, target: str) -> None:
        """The file `source` is called `target` now: it is opened by that name from now on."""
        with self._lock:
            file = self._named.pop(source, None)
            if file is not None:
                file.path = target
                self._named[target] = file

    def pin(self, file: "RealFile") -> int:
        """The descriptor of `file`, kept open until `unpin`. For other threads, and flushes."""
        with self._lock:
            file.pins += 1
        try:
            return file.descriptor()
        except BaseException:
            self.unpin(file)
            raise

    def unpin(self, file: "RealFile") -> None:
        """The end of one `pin`."""
        with self._lock:
            file.pins -= 1

    def pin_all(self, files: Sequence["RealFile"]) -> list[int]:
        """The descriptors of all `files`, kept open until `unpin_all`. OSError: none is pinned."""
        with self._lock:
            for file in files:
                file.pins += 1
        try:
            return [file.descriptor() for file in files]
        except BaseException:
            self.unpin_all(files)
            raise

    def unpin_all(self, files: Sequence["RealFile"]) -> None:
        """The end of one `pin_all`."""
        with self._lock:
            for file in files:
                file.pins -= 1

    def _make_room(self) -> None:
        ring = self._ring
        spare = len(ring) + 1 - self.open_max
        for _ in range(min(2 * len(ring), spare + _LOOKED_AT_MAX)):
            if spare <= 0:
                return
            with self._lock:
                file = next(iter(ring))
                fd = file.give_up()
                if fd < 0:
                    ring.move_to_end(file)
                    continue
                self._forget(file)
            spare -= 1
            os.close(fd)
        if spare > 0:
            self._relieve()

    def _relieve(self) -> None:
        """Flush files that wait for nobody's flush, so that they may be closed."""
        if self._relieving or self._workers is None:
            return
        found = [one for one in self._ring if one.unflushed and not one.pins][:_LOOKED_AT_MAX]
        if not found:
            return
        self._relieving = True
        fds = []
        for file in found:
            file.write_held()
            file.unflushed = 0
            fds.append(self.pin(file))

        def work() -> None:
            for file, fd in zip(found, fds, strict=True):
                try:
                    os.fdatasync(fd)
                except OSError as error:  # told to who flushes it: the system tells it once
                    file.failure = error

        def done(_: BaseException | None) -> None:
            self._relieving = False
            for file in found:
                self.unpin(file)

        self._workers.run(work, done)


class RealFile:
    """One file in use. `world.disk.DiskFile`."""

    __slots__ = (
        "_cached_flags", "_closed", "_fd", "_files", "_flags", "_held", "_held_at", "_held_end",
        "_identity", "failure", "path", "pins", "unflushed", "used", "writing",
    )  # fmt: skip

    def __init__(self, path: str, fd: int, files: OpenFiles, flags: int = os.O_RDWR) -> None:
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
        """The descriptor, opened again where it was given up. OSError."""
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
        """The descriptor, for its closing; -1 while it is needed."""
        used, self.used = self.used, False
        if used or self.pins or self.unflushed or self._held or self.failure is not None:
            return -1
        fd, self._fd = self._fd, -1
        return fd

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        """`function` of the descriptor, which stays open meanwhile whoever calls."""
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
        """What was held back, for somebody else to write: where, and copies of the parts."""
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
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._held_at)
            raise

    def fileno(self) -> int:
        """The descriptor; good until the loop's next turn unless it is pinned."""
        self.used = True
        return self.descriptor()

    def size(self) -> int:
        """Bytes the file holds now."""
        self.settle()
        return int(self._call(os.fstat).st_size)

    def mtime_ms(self) -> int:
        """Last modification, milliseconds since 1970."""
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
        """Up to `size` bytes if the page cache holds them all, else None."""
        if self.writing is not None and not self.writing.is_set():
            return None
        if self._held:
            self.write_held()
        buffer = bytearray(size)
        try:
            got: int = self._call(os.preadv, [buffer], position, self._cached_flags)
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
        if position + got < self.size():
            return None
        return memoryview(buffer)[:got]

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, waiting for the disk; shorter only at the file's end."""
        self.settle()
        found: bytes = self._call(_read_all, position, size)
        return found

    def forget(self, position: int, size: int) -> None:
        """posix_fadvise DONTNEED, where there is such a thing."""
        if hasattr(os, "posix_fadvise"):
            self._call(os.posix_fadvise, position, size, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self.settle()
        self._call(os.ftruncate, size)

    def sync(self) -> None:
        """fdatasync, blocking."""
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
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.closed(self)
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
