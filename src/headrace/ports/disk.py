"""`Disk` and `DiskFile`: the file system as the log uses it.

Paths are POSIX strings. Every method may raise OSError with the operating system's meaning. Methods
without a `done` argument may block briefly (page cache). Waiting for the disk and scanning a
directory go through `flush` and `run`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

Failures = list[tuple[str, OSError]]
"""Failed writes as (path, error)."""


class Stat(NamedTuple):
    """Size and change time of a file or directory, read without opening it."""

    size: int
    changed: int
    """Last change of a file's content or a directory's names, in nanoseconds.

    As precise as the file system stores it.
    """


class DiskFile(Protocol):
    """An open file. Only `read` may be used by two threads at once."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """Return the file descriptor for zero-copy sends; -1 for simulated files."""

    def size(self) -> int:
        """Return the file's size in bytes."""

    def mtime_ms(self) -> int:
        """Return the modification time in milliseconds since 1970."""

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Set the modification time, in milliseconds since 1970."""

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` in order from byte `position`; return their size in bytes.

        Short writes are continued until all is written. OSError: the bytes from `position` on are
        undefined; the caller truncates or fences.
        """

    def write_held(self) -> None:
        """Perform the writes to this file that a gathering disk has delayed.

        Raises OSError; then all of them count as failed.
        """

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Return up to `size` bytes from `position` if the page cache has them all, else None.

        Fewer than `size` only at the end of the file.
        """

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Fill `into` from byte `position` with cached bytes; return how many.

        Fewer, or 0, if the rest is not cached or the file ends.
        """

    def cached(self, position: int, size: int) -> bool | None:
        """Return whether the page cache has all of these bytes; None if that is unknown.

        They may be evicted at any time.
        """

    def send(self, position: int, size: int, socket: int) -> int:
        """Send up to `size` bytes to the descriptor `socket` by sendfile; return how many.

        Fewer, or 0, if the socket's buffer is full. OSError of the file or the socket. Only for
        bytes that are `cached`, as it blocks for others.
        """

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`, blocking for the disk.

        Fewer at the end of the file.
        """

    def forget(self, position: int, size: int) -> None:
        """Advise the system to drop these bytes from the page cache."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Flush the file by fdatasync; blocking: for threads, start and shutdown."""

    def close(self) -> None: ...


class Disk(Protocol):
    """The file system of the log directories."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file for reading, and writing if `writable`; FileNotFoundError unless `create`."""

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> Stat | None:
        """Return size and change time of `path`, or None if it does not exist."""

    def list(self, path: str) -> "list[str]":
        """Return the names in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Rename `source` to `target`, replacing it atomically.

        Durable only after `sync_directory` of both parents.
        """

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def sync_directories(self, paths: Collection[str]) -> None:
        """Fsync many directories, all at once if that is cheaper.

        Missing ones are skipped.
        """

    def sync_all(self, path: str) -> None:
        """Make all writes to the file system of `path` durable; blocking."""

    def absolute(self, path: str) -> str:
        """Return the absolute path."""

    def boot_id(self) -> str:
        """Return an id that changes with each boot, when the page cache is lost; "" if unknown."""

    def replace(self, path: str, content: bytes) -> None:
        """Replace a file's content atomically and durably.

        Temporary file, fsync, rename, fsync of the directory.
        """

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Return the size in bytes of the file system of `path`."""

    def lock(self, path: str) -> Callable[[], None]:
        """Lock the file `path` (created) exclusively; return the function that releases it.

        BlockingIOError if another process holds the lock.
        """

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Make all earlier writes to `files` durable, on another thread.

        `done` is called on the deciding thread with the first error or None.
        """

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run blocking `work` on another thread, then `done` on the deciding thread with its
        result."""


class GatheringDisk(Protocol):
    """A disk that can delay writes and perform them together."""

    def begin_gather(self) -> None:
        """Delay writes from now on; written buffers must not change until `end_gather`."""

    def end_gather(self, later: Callable[[Failures], None]) -> Failures | None:
        """Perform the delayed writes; return those that failed.

        None: another thread performs them; `later` gets the failures on the deciding thread.
        """


class BrokerDisk(Disk, GatheringDisk, Protocol):
    """A disk with the functions that only a running broker needs: gathered writes."""

    def real_path(self, path: str) -> str:
        """Return the canonical absolute path, with symbolic links resolved."""

    @property
    def passes_handed_over(self) -> int:
        """Number of `end_gather` calls that returned None."""
