"""`FileRange`: part of a file that is read only when it can be sent."""

from collections.abc import Callable

from headrace.model.errors import HeadraceError
from headrace.ports.disk import Buffer


class RangeLost(HeadraceError):
    """The rest of a range is unavailable: its file was truncated, removed or unreadable."""


class FileRange:
    """A byte range of a file that is part of a response, read piece by piece as it is sent.

    No bytes are in memory while it waits, however slow the client. The sender calls `take` until
    `left` is 0. After an error the response must not be completed.
    """

    __slots__ = ()

    left: int
    """Bytes not taken or sent yet."""
    sendable: bool
    """Whether `send` may succeed."""

    def __len__(self) -> int:
        """Return the size of the whole range in bytes, including bytes already taken."""
        raise NotImplementedError

    def send(self, socket: int, size: int) -> int | None:
        """Send up to `size` of the next bytes to the descriptor `socket` by sendfile.

        Returns how many were sent (0: the socket's buffer is full), or None if the next bytes need
        `take`. HeadraceError as in `take`; an OSError is the socket's.
        """
        raise NotImplementedError

    def take(self, into: memoryview) -> int:
        """Copy the next bytes to the head of `into`; return how many.

        0: they are not in the page cache, call `fetch` first. Never blocks for the disk.
        HeadraceError: RangeLost, or damaged bytes.
        """
        raise NotImplementedError

    def fetch(self, done: Callable[[], None]) -> None:
        """Read the next bytes from the disk on a thread; `done` when `take` can continue.

        `done` is called after an error too: `take` raises it.
        """
        raise NotImplementedError


Part = Buffer | FileRange
"""A part of a response: bytes in memory, or a range of a file."""
