"""Bytes that stay in their file until there is room for them on the way out."""

from collections.abc import Callable

from headrace.model.errors import HeadraceError
from headrace.ports.disk import Buffer


class RangeLost(HeadraceError):
    """The rest of a range cannot be had: its file was cut, removed, or does not answer."""


class FileRange:
    """A stretch of a file that was promised to somebody, read piece by piece when it can be sent.

    Nothing of it is in memory meanwhile, however slowly it goes. Whoever sends it asks `take` again
    and again until `left` is 0. An error ends it: what it was to be part of must not be completed.
    """

    __slots__ = ()

    left: int
    """Bytes not taken yet."""
    sendable: bool
    """Whether `send` is worth asking."""

    def __len__(self) -> int:
        """Return the bytes in all, those taken included."""
        raise NotImplementedError

    def send(self, socket: int, size: int) -> int | None:
        """Have the system send the next bytes, at most `size`, to the descriptor `socket`.

        Returns how many it took, 0: no more now. None: not these, `take` them. HeadraceError as
        with `take`; OSError is the socket's.
        """
        raise NotImplementedError

    def take(self, into: memoryview) -> int:
        """Put the next bytes at the head of `into`; returns how many.

        0: they are not in the page cache, `fetch` first. Never waits for the disk. HeadraceError:
        RangeLost, or what is there is not what was written.
        """
        raise NotImplementedError

    def fetch(self, done: Callable[[], None]) -> None:
        """Read on from the disk on a thread; `done` on the deciding thread when `take` has more.

        Also where it failed: `take` tells.
        """
        raise NotImplementedError


Part = Buffer | FileRange
"""What an answer is made of."""
