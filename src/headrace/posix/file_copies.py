"""Durable copies of files: plain, hard links or reflinks; modification times are preserved."""

import errno
import fcntl
import os
from collections.abc import Callable
from typing import Literal

from headrace.model.errors import HeadraceError

Way = Literal["copy", "link", "reflink"]
_FICLONE = 0x40049409
_CHUNK_BYTES = 4 << 20
_ZEROS_BEHIND = (".index", ".timeindex")
"""Files with a preallocated rest of zeros."""
_CANNOT = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM, errno.EMLINK}
"""Errors of a file system that supports no hard link or reflink there."""


class CannotCopy(HeadraceError):
    """The file system cannot make a hard link or a reflink."""


class Copier:
    """Copies one file, called with (source, target, whether the source never changes again)."""

    def __init__(self, way: Way, copied: Callable[[int], None]) -> None:
        """Create a copier.

        `way`: copy, link (only closed files) or reflink.

        `copied` is called with the bytes of each step.
        """
        self._way = way
        self._copied = copied

    def __call__(self, source: str, target: str, closed: bool) -> None:
        """Copy a file; its content is flushed, its directory entry is not.

        Raises CommandError or OSError.
        """
        try:
            if self._way == "link" and closed:
                os.link(source, target)
                self._copied(os.path.getsize(source))
                return
            self._copy(source, target)
        except OSError as error:
            if self._way == "copy" or error.errno not in _CANNOT:
                raise
            raise CannotCopy(
                f"{target}: this file system cannot make a {self._way} of {source}"
                f" ({(error.strerror or str(error)).lower()})"
            ) from None

    def _copy(self, source: str, target: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd_from = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        fd_to = os.open(target, flags, 0o644)
        try:
            status = os.fstat(fd_from)
            if self._way == "reflink":
                fcntl.ioctl(fd_to, _FICLONE, fd_from)
                self._copied(status.st_size)
            else:
                self._copy_bytes(fd_from, fd_to, sparse=source.endswith(_ZEROS_BEHIND))
            os.fsync(fd_to)
            # Retention and producer expiry use a segment's modification time.
            os.utime(fd_to, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(fd_from)
            os.close(fd_to)

    def _copy_bytes(self, fd_from: int, fd_to: int, *, sparse: bool) -> None:
        position = 0
        while chunk := os.pread(fd_from, _CHUNK_BYTES, position):
            # The preallocated rest of an index is a hole and is not written here either.
            content = chunk.rstrip(b"\0") if sparse else chunk
            written = 0
            while written < len(content):
                written += os.pwrite(fd_to, content[written:], position + written)
            position += len(chunk)
            self._copied(len(chunk))
        os.ftruncate(fd_to, position)
