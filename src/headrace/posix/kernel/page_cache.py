"""`Residency`: ask which bytes of a file are in the page cache (cachestat, Linux 6.5).

No page is touched. A page being read in counts as cached; a reader waits for it. mincore costs ten
times as much and needs a mapping; preadv2 copies the data.
"""

import ctypes
import mmap
import os
from struct import Struct

_MACHINES = {"x86_64", "aarch64", "riscv64"}
_CACHESTAT = 451
_RANGE = Struct("@QQ")
_COUNTS = Struct("@5Q")


class Residency:
    """The cachestat system call with its buffers. For one thread."""

    __slots__ = ("_counts", "_range", "_syscall")

    def __init__(self, libc: "ctypes.PyDLL") -> None:
        """Make a page cache query on `libc`; callers use `open`."""
        self._syscall = libc.syscall
        self._syscall.argtypes = (
            ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint,
        )  # fmt: skip
        self._range = ctypes.create_string_buffer(_RANGE.size)
        self._counts = ctypes.create_string_buffer(_COUNTS.size)

    @classmethod
    def open(cls) -> "Residency | None":
        """Return a page cache query, or None if cachestat is not supported or is forbidden."""
        if os.uname().machine not in _MACHINES:
            return None
        # Two microseconds: too short to release the interpreter's lock, as CDLL would.
        asked = cls(ctypes.PyDLL(None))
        fd = os.memfd_create("asked")
        try:
            return None if asked.holds(fd, 0, 1) is None else asked
        finally:
            os.close(fd)

    def holds(self, fd: int, position: int, size: int) -> bool | None:
        """Return whether all these bytes (at least one) are cached; None if this file cannot
        tell."""
        _RANGE.pack_into(self._range, 0, position, size)
        if self._syscall(_CACHESTAT, fd, self._range, self._counts, 0) != 0:
            return None
        pages = (position + size - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1
        held: int = _COUNTS.unpack_from(self._counts)[0]
        return held == pages
