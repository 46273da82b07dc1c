"""How several files reach the disk together (`log.flush.strategy`).

* fdatasync one after the other: each waits for a journal commit and a flush of the device's cache
  of its own. On ext4, a few KB a file, on a busy disk: 4 files 8 ms, 16 files 51 ms.
* The same side by side (`aio`): they share commits. 4 files 0.4 ms, 16 files 0.6 ms, 100 files 2.9.
* syncfs: everything at once, whatever their number, but also all that others have left unwritten in
  the same file system. 4 files 2.1 ms, 100 files 2.2, and half a second beside a large copy.
"""

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.posix.kernel_aio import ParallelFdatasync


class Flush(Protocol):
    """Makes files durable. Blocks; runs on the flush thread, one call at a time."""

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush all that was written to `fds`, `size` bytes: on the disk on return. OSError.

        `devices`: of those, one on each file system. To ask the system which one a descriptor is on
        would give the interpreter's lock away as often as there are files, and the loop takes it.
        """


class Fdatasync:
    """Each file by itself."""

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush by one fdatasync a file."""
        for fd in fds:
            os.fdatasync(fd)


class Syncfs:
    """All files of a file system at once."""

    def __init__(self) -> None:
        self._syncfs: Callable[[int], int] | None = None

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush by one syncfs for each file system.

        Errors of write-back are reported since Linux 5.8, and for any file of the file system: one
        that is not ours fences too early rather than too late.
        """
        import ctypes  # 10 ms to import: needed from the first flush of several files on

        if self._syncfs is None:
            self._syncfs = ctypes.CDLL(None, use_errno=True).syncfs
        for fd in devices:
            if self._syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))


class Parallel:
    """Each file by itself, all at the same time where the system can, else one after the other."""

    def __init__(self) -> None:
        self._aio: ParallelFdatasync | None = None
        self._tried = False
        self._flushes = 0

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush by one fdatasync a file, side by side."""
        self._flushes += 1
        if not self._tried and (self._flushes > _FIRST_FLUSHES or len(fds) > _FEW_FILES):
            from headrace.posix.kernel_aio import ParallelFdatasync  # with ctypes: not at start

            self._tried = True
            self._aio = ParallelFdatasync.open()
        if self._aio is not None:
            try:
                self._aio.flush(fds)
                return
            except NotImplementedError:
                self._aio = None
        for fd in fds:
            os.fdatasync(fd)


_FIRST_FLUSHES = 4
_FEW_FILES = 4
"""The first flushes of few files do without ctypes: importing it takes longer than they do."""
_EACH_SECONDS = 0.00006
_ALL_SECONDS, _ALL_SECONDS_EACH = 0.0003, 0.000008
"""What they are taken to cost before any was measured: a file by itself; all, and each of them."""
_MANY_FILES = 24
"""From so many on syncfs may be cheaper."""
_SMALL_BYTES = 64 << 10
"""With more than this a file, writing is what costs, and syncfs costs more CPU for it."""
_WEIGHT = 0.2
_TRY_AFTER, _TRY_AFTER_MAX = 128, 8192
"""So many flushes go by until the other way is tried again; twice as many after a try in vain."""


class _Costs:
    """What flushes of about as many files have cost, in seconds."""

    __slots__ = ("all", "each", "try_after", "until_try")

    def __init__(self, count: int) -> None:
        self.each = _EACH_SECONDS * count
        self.all = _ALL_SECONDS + _ALL_SECONDS_EACH * count
        self.try_after = self.until_try = _TRY_AFTER


class Auto:
    """One file by fdatasync, several side by side, many by what has been cheaper lately.

    What is cheaper depends on how many there are, so each power of two has its own account. The
    other way is tried seldom, and ever more seldom while it loses: beside a large copy one syncfs
    may take seconds.
    """

    def __init__(self) -> None:
        self._each = Parallel()
        self._all = Syncfs()
        self._costs: dict[int, _Costs] = {}

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush in the cheaper way; with many files at times in the other, to learn its cost."""
        count = len(fds)
        if count == 1:
            os.fdatasync(fds[0])
            return
        if count < _MANY_FILES or size > count * _SMALL_BYTES:
            self._each.flush(fds, size, devices)
            return
        costs = self._costs.get(count.bit_length())
        if costs is None:
            costs = self._costs[count.bit_length()] = _Costs(count)
        together = costs.all < costs.each
        costs.until_try -= 1
        trial = costs.until_try <= 0
        if trial:
            together = not together
        began = perf_counter()
        (self._all if together else self._each).flush(fds, size, devices)
        taken = perf_counter() - began
        weight = 1.0 if trial else _WEIGHT
        if together:
            costs.all += weight * (taken - costs.all)
        else:
            costs.each += weight * (taken - costs.each)
        if trial:
            won = together == (costs.all < costs.each)
            costs.try_after = _TRY_AFTER if won else min(2 * costs.try_after, _TRY_AFTER_MAX)
            costs.until_try = costs.try_after


FLUSHES: dict[str, Callable[[], Flush]] = {
    "auto": Auto,
    "fdatasync": Fdatasync,
    "aio": Parallel,
    "syncfs": Syncfs,
}
"""By the words of `log.flush.strategy`."""
