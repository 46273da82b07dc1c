"""Strategies to flush several files (`log.flush.strategy`).

fdatasync   one file after the other, each with its own journal commit and flush of the device's
            cache. ext4, a few KB a file, busy disk: 4 files 8 ms, 16 files 51 ms
aio         the same in parallel, with shared commits: 4 files 0.4 ms, 16 files 0.6 ms, 100 2.9
ms syncfs      everything at once, including other programs' dirty pages in the file system:
            4 files 2.1 ms, 100 files 2.2 ms, half a second during a large copy
auto        by the number of files and the measured cost
"""

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.posix.kernel.asynchronous_io import ParallelFdatasync


class Flush(Protocol):
    """A way to make files durable. Blocking; called on the flush thread, one call at a time."""

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Make the `size` bytes written to `fds` durable. Raises OSError.

        `devices`: one of these descriptors for each file system. Asking the system for a
        descriptor's device would release the interpreter's lock once per file, and the loop would
        take it.
        """


class Fdatasync:
    """The flush strategy with an fdatasync for each file, in sequence."""

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush each file by fdatasync, in sequence."""
        for fd in fds:
            os.fdatasync(fd)


class Syncfs:
    """The flush strategy with a syncfs for each file system."""

    def __init__(self) -> None:
        self._syncfs: Callable[[int], int] | None = None

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush by one syncfs for each file system.

        Write-back errors are reported since Linux 5.8, for any file of the file system: an error of
        another program's file fences too early rather than too late.
        """
        import ctypes  # 10 ms to import: needed only for flushes of several files

        if self._syncfs is None:
            self._syncfs = ctypes.CDLL(None, use_errno=True).syncfs
        for fd in devices:
            if self._syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))


class Parallel:
    """The flush strategy with an fdatasync for each file, in parallel by kernel AIO if possible."""

    def __init__(self) -> None:
        self._aio: ParallelFdatasync | None = None
        self._tried = False
        self._flushes = 0

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush each file by fdatasync, in parallel."""
        self._flushes += 1
        if not self._tried and (self._flushes > _FIRST_FLUSHES or len(fds) > _FEW_FILES):
            from headrace.posix.kernel.asynchronous_io import (
                ParallelFdatasync,  # imports ctypes: not at start
            )

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
"""The first flushes of few files avoid ctypes, whose import takes longer than they do."""
_EACH_SECONDS = 0.00006
_ALL_SECONDS, _ALL_SECONDS_EACH = 0.0003, 0.000008
"""Assumed seconds before any measurement: of one fdatasync; of a syncfs, and per file of it."""
_MANY_FILES = 24
"""Number of files from which on syncfs may be cheaper."""
_SMALL_BYTES = 64 << 10
"""Above this size per file, writing dominates, and syncfs costs more CPU time for it."""
_WEIGHT = 0.2
_TRY_AFTER, _TRY_AFTER_MAX = 128, 8192
"""Flushes until the other strategy is tried again; doubled after each unsuccessful try."""


class _Costs:
    """Measured costs in seconds of flushes of similar numbers of files."""

    __slots__ = ("all", "each", "try_after", "until_try")

    def __init__(self, count: int) -> None:
        self.each = _EACH_SECONDS * count
        self.all = _ALL_SECONDS + _ALL_SECONDS_EACH * count
        self.try_after = self.until_try = _TRY_AFTER


class Auto:
    """The cheaper of parallel fdatasync and syncfs, by measurement.

    The costs depend on the number of files, so each power of two has its own measurements. The
    other strategy is tried rarely, and ever more rarely while it loses: during a large copy one
    syncfs may take seconds.
    """

    def __init__(self) -> None:
        self._each = Parallel()
        self._all = Syncfs()
        self._costs: dict[int, _Costs] = {}

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        """Flush with the cheaper strategy; with many files sometimes with the other, to measure
        it."""
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
"""Strategies by their names in `log.flush.strategy`."""
