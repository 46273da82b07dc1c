"""How several files reach the platter together (`log.flush.strategy`).

One file is cheapest by fdatasync. For several, each fdatasync is a journal commit and a flush of
the device's cache of its own, while one syncfs does both once; but it also writes what others have
left unwritten in the same file system. Measured on ext4, a few KB each: 4 files 1.9 against 0.3 ms,
16 files 3.7 against 0.5, 50 files 14 against 1.2; with a gigabyte of somebody else's dirty pages
there, or with megabytes of our own, fdatasync wins. So `auto` goes by what each has cost lately.
"""

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol


class Flush(Protocol):
    """Makes files durable. Blocks; runs on the flush thread, one call at a time."""

    def flush(self, fds: Sequence[int], size: int) -> None:
        """All that was written to `fds`, `size` bytes, is on the platter on return. OSError."""


class Fdatasync:
    """Each file by itself."""

    def flush(self, fds: Sequence[int], size: int) -> None:
        """One fdatasync a file."""
        for fd in fds:
            os.fdatasync(fd)


class Syncfs:
    """All files of a file system at once."""

    def __init__(self) -> None:
        self._syncfs: Callable[[int], int] | None = None

    def flush(self, fds: Sequence[int], size: int) -> None:
        """One syncfs for each file system.

        Errors of write-back are reported since Linux 5.8, and for any file of the file system: one
        that is not ours fences too early rather than too late.
        """
        import ctypes  # 10 ms to import: needed from the first flush of several files on

        if self._syncfs is None:
            self._syncfs = ctypes.CDLL(None, use_errno=True).syncfs
        devices = {os.fstat(fd).st_dev: fd for fd in fds}
        for fd in devices.values():
            if self._syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))


_FDATASYNC_SECONDS = 0.0005
"""What one is taken to cost before any was measured."""
_SMALL_BYTES = 64 << 10
"""With more than this a file, writing is what costs, and syncfs costs more CPU for it."""
_WEIGHT = 0.2
_TRY_EVERY = 64
"""So many flushes of several files go by until the other way is tried again."""


class Auto:
    """Whichever has been cheaper lately for so many files."""

    def __init__(self) -> None:
        self._each = Fdatasync()
        self._all = Syncfs()
        self._each_seconds = _FDATASYNC_SECONDS
        self._all_seconds = _FDATASYNC_SECONDS
        self._since_other = 0

    def flush(self, fds: Sequence[int], size: int) -> None:
        """The cheaper way; now and then the other, to know what it costs."""
        count = len(fds)
        if count == 1 or size > count * _SMALL_BYTES:
            self._each.flush(fds, size)
            return
        together = self._all_seconds < self._each_seconds * count
        self._since_other += 1
        if self._since_other >= _TRY_EVERY:
            self._since_other = 0
            together = not together
        began = perf_counter()
        if together:
            self._all.flush(fds, size)
            self._all_seconds += _WEIGHT * (perf_counter() - began - self._all_seconds)
        else:
            self._each.flush(fds, size)
            taken = (perf_counter() - began) / count
            self._each_seconds += _WEIGHT * (taken - self._each_seconds)


FLUSHES: dict[str, Callable[[], Flush]] = {"auto": Auto, "fdatasync": Fdatasync, "syncfs": Syncfs}
"""By the words of `log.flush.strategy`."""
