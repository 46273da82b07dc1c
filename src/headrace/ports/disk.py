"""Files, as the log sees them.

Paths are POSIX strings. Every method may raise OSError: it means what the operating system means by
it. Methods without a `done` argument may block, as little as the page cache allows; what must wait
for the disk, or scans a directory, goes through `flush` and `run`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

Failures = list[tuple[str, OSError]]
"""Writes that failed, by path."""


class Stat(NamedTuple):
    """What is known of a file or directory without opening it."""

    size: int
    changed: int
    """When it was changed last, in nanoseconds, as exactly as the file system keeps that: the
    content of a file, the names in a directory."""


class DiskFile(Protocol):
    """One open file. Not safe for use by two threads, except `read`, which is."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """Return the descriptor, for zero-copy sends; -1 where there is none (simulated files)."""

    def size(self) -> int:
        """Return the bytes the file holds now."""

    def mtime_ms(self) -> int:
        """Return the last modification, in milliseconds since 1970."""

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Make that the time of the last modification."""

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write all of `parts` one after the other from `position`; return their size in bytes.

        Short writes are carried on until all is written or the disk says no (OSError): then what
        lies at and beyond `position` is undefined and the caller truncates or fences.
        """

    def write_held(self) -> None:
        """Write now what the disk holds back of it. OSError: nothing of that counts."""

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Return up to `size` bytes from `position` if the page cache holds them all, else None.

        Shorter than `size` only at the end of the file.
        """

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Fill `into` from `position` on with what the page cache holds; returns how much that was.

        Less, or nothing, where the rest is not cached or the file ends.
        """

    def cached(self, position: int, size: int) -> bool | None:
        """Tell whether the page cache holds all of these bytes; None: that cannot be told.

        True says nothing of how long they stay.
        """

    def send(self, position: int, size: int, socket: int) -> int:
        """Have the system send these bytes to the descriptor `socket`, at most; how many it took.

        Fewer, or none, where the socket takes no more now. OSError, the file's or the socket's.
        Only for bytes that are `cached`: others are waited for.
        """

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`, waiting for the disk.

        Shorter at the file's end.
        """

    def forget(self, position: int, size: int) -> None:
        """Drop these bytes from the page cache, if one likes: nobody will need them soon."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Flush by fdatasync, now, blocking: for threads, start-up and shutdown."""

    def close(self) -> None: ...


class Disk(Protocol):
    """The file system below the log directories."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open for reading, and for writing where `writable`; FileNotFoundError unless `create`."""

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> Stat | None:
        """Return the size and time of the last change; None where there is nothing at `path`."""

    def list(self, path: str) -> "list[str]":
        """Return the names in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create it and its parents; no error where it exists."""

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source`, atomically.

        Durable only after `sync_directory` of both parents.
        """

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def sync_directories(self, paths: Collection[str]) -> None:
        """Flush many directories, all of them at once where that is cheaper.

        Those gone are skipped.
        """

    def sync_all(self, path: str) -> None:
        """Make everything written so far to the file system that holds `path` durable; blocking."""

    def absolute(self, path: str) -> str:
        """Return the path from the root on."""

    def boot_id(self) -> str:
        """Return a text, another whenever the page cache was lost (a new boot); "": not known."""

    def replace(self, path: str, content: bytes) -> None:
        """Replace the content, atomic and durable.

        Temporary file, fsync, rename, fsync of the directory.
        """

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system that holds `path`."""

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on the file `path` (created), return its release.

        BlockingIOError where another process holds it.
        """

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Make all that was written to `files` before this call durable, off the deciding thread.

        `done` is called on the deciding thread, with the first error or None.
        """

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do blocking `work` off the deciding thread, then `done` on it with result or error."""


class GatheringDisk(Protocol):
    """A disk that can hold writes back and do them together."""

    def begin_gather(self) -> None:
        """Hold writes back from now on: the buffers written must stay as they are until the end."""

    def end_gather(self, later: Callable[[Failures], None]) -> Failures | None:
        """Do the writes held back; what failed, and nothing else was lost.

        None: they are being done away from the deciding thread, and `later` is told on it.
        """


class BrokerDisk(Disk, GatheringDisk, Protocol):
    """A disk with what only a running broker asks for: the writes of one pass done as one."""

    def real_path(self, path: str) -> str:
        """Return the one absolute path that all ways to the same file or directory lead to."""

    @property
    def passes_handed_over(self) -> int:
        """How often `end_gather` has returned None."""
