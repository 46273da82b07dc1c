"""A growing file read line by line, through rotation, truncation and restarts.

A file is identified by device and inode and, as inodes are reused, by a digest of its first bytes.
After a rename the rest of the renamed file is read before the next file; after copy and truncation
the rest is read from the copy. Rotated files are searched in the same directory, under names with a
number or date added.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HEAD_BYTES = 256
"""The most first bytes whose digest identifies a file."""
LINE_BYTES_MAX = 1_000_000
"""A longer line fits no record of default size and is skipped with a warning."""
_COUNTED_BYTES = 4 << 20
QUIET_SECONDS = 1.0
"""A renamed file is left once nothing was added for this long, as writers reopen late."""


class Mark(NamedTuple):
    """A position in a file that can be found again."""

    device: int
    inode: int
    position: int
    head_bytes: int
    head: str
    """Hexadecimal SHA-256 of the file's first `head_bytes` bytes, all before `position`."""


class Tail:
    """Reads the lines of file `path` as it grows. Not thread-safe."""

    def __init__(
        self, path: Path, mark: Mark | None, *, from_end: bool, warn: Callable[[str], None]
    ) -> None:
        """Continue at `mark`; without one start at the beginning, or with `from_end` at the end."""
        self.path = path
        self._warn = warn
        self._descriptor = -1
        self._position = 0
        self._grew = time.monotonic()
        if mark is not None:
            self._resume(mark)
        elif self._open(path, 0) and from_end:
            self._position = os.fstat(self._descriptor).st_size

    def open(self) -> bool:
        """Open the file at its beginning unless one is open; return whether a file is open."""
        return self._descriptor >= 0 or self._open(self.path, 0)

    def close(self) -> None:
        """Close the file that is being read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def mark(self) -> Mark | None:
        """Return the position after the last returned line; None while no file is open."""
        if self._descriptor < 0:
            return None
        status = os.fstat(self._descriptor)
        size = min(HEAD_BYTES, self._position)
        return Mark(
            status.st_dev, status.st_ino, self._position, size, _head(self._descriptor, size)
        )

    def rewind(self, mark: Mark | None) -> None:
        """Go back to an earlier position; None: start over with the file that exists then."""
        if mark is None:
            self.close()  # `lines` reopens the path at its beginning
        else:
            self._resume(mark)

    def lines(self, bytes_max: int = 1 << 20) -> list[bytes]:
        """Return the next complete lines without their line ends; empty if there are none yet."""
        if not self.open():
            return []
        size, head = min(HEAD_BYTES, self._position), self._head_now
        if os.fstat(self._descriptor).st_size < self._position or (
            size == len(head) and os.pread(self._descriptor, size, 0) != head
        ):
            self._truncated(size)
        found = self._read(bytes_max)
        if found:
            self._grew = time.monotonic()
            return found
        return self._leave_if_rotated()

    def lines_left(self) -> int:
        """Return the number of complete lines of the open file not returned yet.

        0 without a file.
        """
        count, at = 0, self._position
        while self._descriptor >= 0 and (data := os.pread(self._descriptor, _COUNTED_BYTES, at)):
            count += data.count(b"\n")
            at += len(data)
        return count

    def _open(self, path: Path, position: int) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        self.close()
        self._descriptor = descriptor
        self._position = position
        self._remember_head()
        self._grew = time.monotonic()
        return True

    def _remember_head(self) -> None:
        """Store the first bytes read: if they change later, the file was rewritten."""
        self._head_now = os.pread(self._descriptor, min(HEAD_BYTES, self._position), 0)

    def _read(self, bytes_max: int) -> list[bytes]:
        data = os.pread(self._descriptor, bytes_max, self._position)
        end = data.rfind(b"\n")
        if end < 0 and len(data) == bytes_max:
            self._skip_long_line()
            return []
        if end < 0:
            return []
        self._position += end + 1
        if len(self._head_now) < HEAD_BYTES:
            self._remember_head()
        lines = data[:end].split(b"\n")
        short = [line for line in lines if len(line) <= LINE_BYTES_MAX]
        if len(short) < len(lines):
            self._warn(f"{self.path}: skipped a line of more than {LINE_BYTES_MAX} bytes")
        return short

    def _skip_long_line(self) -> None:
        """Skip a line that no record can hold, once its end has been written."""
        at = self._position
        while data := os.pread(self._descriptor, 1 << 20, at):
            end = data.find(b"\n")
            if end >= 0:
                self._warn(f"{self.path}: skipped a line of {at + end - self._position} bytes")
                self._position = at + end + 1
                return
            at += len(data)

    def _leave_if_rotated(self) -> list[bytes]:
        """Continue with the next file if this one was renamed and no longer grows.

        Return its rest.
        """
        ours = os.fstat(self._descriptor)
        try:
            now_there = self.path.stat()
        except FileNotFoundError:
            return []
        if (ours.st_dev, ours.st_ino) == (now_there.st_dev, now_there.st_ino):
            return []
        size = ours.st_size
        if time.monotonic() - self._grew < QUIET_SECONDS:
            return []
        rest = os.pread(self._descriptor, LINE_BYTES_MAX + 1, self._position)
        if rest:
            # The last line of a file that is no longer written needs no line end.
            self._position = size
            if len(rest) <= LINE_BYTES_MAX:
                return rest.split(b"\n")
            self._warn(f"{self.path}: skipped a line of more than {LINE_BYTES_MAX} bytes")
        self._open(self._following(ours), 0)
        return []

    def _following(self, ours: os.stat_result) -> Path:
        """Return the file written after ours: there may have been several rotations."""
        later = []
        for path in self._siblings():
            status = path.stat()
            is_ours = (status.st_dev, status.st_ino) == (ours.st_dev, ours.st_ino)
            if not is_ours and status.st_mtime_ns >= ours.st_mtime_ns:
                later.append((status.st_mtime_ns, path))
        return min(later)[1] if later else self.path

    def _truncated(self, size: int) -> None:
        """Continue in the copy of a truncated file, or start over if there is no copy."""
        head = hashlib.sha256(self._head_now[:size]).hexdigest()
        for path in self._siblings():
            if size and _holds(path, size, head, self._position):
                self._open(path, self._position)
                return
        self._warn(f"{self.path}: was truncated; reading it from its beginning")
        self._position = 0
        self._remember_head()

    def _resume(self, mark: Mark) -> None:
        """Open the file that `mark` refers to, at that position, even if it was renamed."""
        same = other = None
        for path in [self.path, *self._siblings()]:
            if not _holds(path, mark.head_bytes, mark.head, mark.position):
                continue
            status = path.stat()
            if (status.st_dev, status.st_ino) == (mark.device, mark.inode):
                same = same or path
            elif mark.head_bytes:
                other = other or path
        found = same or other
        if found is None:
            if self._open(self.path, 0):
                self._warn(
                    f"{self.path}: the file that was read last no longer exists; starting at the"
                    " beginning of this one"
                )
            return
        self._open(found, mark.position)

    def _siblings(self) -> Iterator[Path]:
        """Yield rotated files in the same directory.

        They have the file's name with a number or a date added, and are not compressed.
        """
        stem, suffix = re.escape(self.path.stem), re.escape(self.path.suffix)
        stamp = r"[.\-_][0-9][0-9T.:_\-]*"
        pattern = re.compile(rf"{stem}{suffix}{stamp}|{stem}{stamp}{suffix}")
        for entry in sorted(os.listdir(self.path.parent)):
            if pattern.fullmatch(entry):
                path = self.path.parent / entry
                if path.is_file():
                    yield path


def _head(descriptor: int, size: int) -> str:
    return hashlib.sha256(os.pread(descriptor, size, 0)).hexdigest()


def _holds(path: Path, size: int, head: str, position: int) -> bool:
    """Return whether a file starts with bytes of digest `head` and is at least `position` long."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return os.fstat(descriptor).st_size >= position and _head(descriptor, size) == head
    finally:
        os.close(descriptor)
