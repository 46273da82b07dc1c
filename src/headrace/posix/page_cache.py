"""Which bytes of a file the page cache holds (cachestat, Linux 6.5), without a look at any of them.

A page that is being read in counts as held: who needs it waits for that read. mincore would tell,
at ten times the cost and with a mapping; preadv2 tells by copying.
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
    """The question, with its memory. For one thread."""

    __slots__ = ("_counts", "_range", "_syscall")

    def __init__(self, libc: "ctypes.PyDLL") -> None:
        """`open` makes one where the system can."""
        self._syscall = libc.syscall
        self._syscall.argtypes = (
            ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint,
        )  # fmt: skip
        self._range = ctypes.create_string_buffer(_RANGE.size)
        self._counts = ctypes.create_string_buffer(_COUNTS.size)

    @classmethod
    def open(cls) -> "Residency | None":
        """Return the means to ask; None where there is no such thing, or a sandbox forbids it."""
        if os.uname().machine not in _MACHINES:
            return None
        # Two microseconds: not worth giving the interpreter's lock up, as CDLL does.
        asked = cls(ctypes.PyDLL(None))
        fd = os.memfd_create("asked")
        try:
            return None if asked.holds(fd, 0, 1) is None else asked
        finally:
            os.close(fd)

    def holds(self, fd: int, position: int, size: int) -> bool | None:
        """Tell whether all these bytes (one at least) are there; None: this file does not tell."""
        _RANGE.pack_into(self._range, 0, position, size)
        if self._syscall(_CACHESTAT, fd, self._range, self._counts, 0) != 0:
            return None
        pages = (position + size - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1
        held: int = _COUNTS.unpack_from(self._counts)[0]
        return held == pages
