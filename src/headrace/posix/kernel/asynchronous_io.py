"""Parallel fdatasyncs by the kernel's asynchronous I/O (io_submit, IOCB_CMD_FDSYNC).

The kernel's workers run them in parallel, so they share journal commits. One system call starts
them and one waits; no threads are needed here. Linux 4.18 and later; if a sandbox or another system
does not support it, `ParallelFdatasync.open` returns None.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_NUMBERS = {
    "x86_64": (206, 209, 208),
    "aarch64": (0, 2, 4),
    "riscv64": (0, 2, 4),
}
"""System call numbers of io_setup, io_submit, io_getevents (asm/unistd.h)."""
_AT_ONCE_MAX = 256
_FDSYNC = 3
_IOCB = struct.Struct("<QIIHhIQQqQII")
_IO_EVENT = struct.Struct("<QQqq")


class ParallelFdatasync:
    """A context of kernel AIO, for one thread."""

    def __init__(
        self, libc: ctypes.CDLL, context: ctypes.c_ulong, numbers: tuple[int, int]
    ) -> None:
        self._syscall = libc.syscall
        self._context = context
        self._submit, self._getevents = numbers
        self._events = ctypes.create_string_buffer(_IO_EVENT.size * _AT_ONCE_MAX)

    @classmethod
    def open(cls) -> "ParallelFdatasync | None":
        """Open a context; None if the system does not support it."""
        numbers = _NUMBERS.get(os.uname().machine)
        if numbers is None:
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        setup, submit, getevents = numbers
        context = ctypes.c_ulong(0)
        try:
            if libc.syscall(setup, _AT_ONCE_MAX, ctypes.byref(context)) != 0:
                return None
        except AttributeError:
            return None
        return cls(libc, context, (submit, getevents))

    def flush(self, fds: Sequence[int]) -> None:
        """Flush all of `fds` to the disk; raise the first OSError of any.

        NotImplementedError if the kernel does not support fdatasync this way; nothing was flushed.
        """
        failed: OSError | None = None
        for at in range(0, len(fds), _AT_ONCE_MAX):
            some = fds[at : at + _AT_ONCE_MAX]
            begun = self._begin(some)
            failed = self._finish(begun) or failed
            for fd in some[begun:]:
                os.fdatasync(fd)
        if failed is not None:
            raise failed

    def _begin(self, fds: Sequence[int]) -> int:
        """Start as many fdatasyncs as the system accepts; return their number."""
        size = _IOCB.size
        blocks = ctypes.create_string_buffer(
            b"".join(_IOCB.pack(0, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, 0, 0) for fd in fds),
            size * len(fds),
        )
        first = ctypes.addressof(blocks)
        pointers = (ctypes.c_void_p * len(fds))(*range(first, first + size * len(fds), size))
        begun: int = self._syscall(self._submit, self._context, ctypes.c_long(len(fds)), pointers)
        if begun >= 0:
            return begun
        number = ctypes.get_errno()
        if number in {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP}:
            raise NotImplementedError(os.strerror(number))
        if number == errno.EAGAIN:
            return 0
        raise OSError(number, os.strerror(number))

    def _finish(self, begun: int) -> OSError | None:
        """Wait for all that were started; return the first error, or None."""
        failed: OSError | None = None
        left = begun
        while left:
            got = self._syscall(
                self._getevents,
                self._context,
                ctypes.c_long(left),
                ctypes.c_long(left),
                self._events,
                None,
            )
            if got < 0:
                number = ctypes.get_errno()
                if number == errno.EINTR:
                    continue
                raise OSError(number, os.strerror(number))
            for at in range(got):
                _, _, result, _ = _IO_EVENT.unpack_from(self._events, at * _IO_EVENT.size)
                if result < 0 and failed is None:
                    failed = OSError(-result, os.strerror(-result))
            left -= got
        return failed
