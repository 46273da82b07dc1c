"""Where a connection's bytes land before they are whole frames."""

from headrace.model.errors import Malformed
from headrace.net.buffers import BufferPool

LENGTH_BYTES = 4

FIRST_ROOM_BYTES = (64 << 10) - LENGTH_BYTES
"""What an announcement alone gets. The frame has its whole room when that much of it has come: else
three announcements of 100 MB, with nothing behind them, would hold the budget of everybody. Of a
batch of 1 MB one read usually brings as much."""


class Inbox:
    """Receives into the buffer all connections share, or its own while a frame is unfinished.

    Safe because one read is received and handled before the loop turns to another connection. What
    is left of an unfinished frame is carried over into an own buffer that comes to hold all of
    it; a buffer larger than the shared one is kept for the next frames, so that a stream of large
    frames is received in place: the bytes are copied once, by the kernel.

    One that `reads_ahead` is for small frames: what is left of one is put before the next bytes in
    the shared buffer, so that each read brings as many whole frames as there are.
    """

    __slots__ = (
        "_carried", "_need", "_own", "_pool", "_reach", "_scratch", "filled", "reads_ahead", "view",
    )  # fmt: skip

    def __init__(self, scratch: memoryview, pool: BufferPool) -> None:
        self._scratch = scratch
        self._pool = pool
        self._own: bytearray | None = None
        self._need = 0  # bytes that make the unfinished frame whole, 0 while that is unknown
        self._reach = 0  # how far the own buffer is filled by one read: the last large frame's end
        self._carried = False  # whether what is in the own buffer is put before the next bytes
        self.reads_ahead = False
        """Whether more than the rest of an unfinished frame is received at once."""
        self.view: memoryview = scratch
        """The bytes received and not yet handled: `view[:filled]`."""
        self.filled = 0

    @property
    def holds_large(self) -> bool:
        """Whether it has a buffer that counts against the budget of large frames."""
        return self._own is not None and len(self._own) > len(self._scratch)

    def space(self) -> memoryview:
        """Return the memory for the next bytes: never empty, up to the frame's end if known."""
        if self._own is None:
            return self._scratch
        filled = self.filled
        if self._carried:
            self._scratch[:filled] = self.view[:filled]
            return self._scratch[filled:]
        return self.view[filled : max(self._reach, filled + LENGTH_BYTES)]

    def received(self, nbytes: int) -> bool:
        """Count `nbytes` that have come into `space`; tell whether a look is worth it.

        A frame of known size may be unfinished and have room.
        """
        if self._carried:
            return self._received_ahead(nbytes)
        self.filled = filled = self.filled + nbytes
        return filled >= self._need or filled >= self._reach > 0

    def _received_ahead(self, nbytes: int) -> bool:
        filled, need = self.filled, self._need
        self.view = self._scratch
        if filled + nbytes >= need:
            self.release()
            self.filled = filled + nbytes
            return True
        self._carry(0, filled + nbytes, need)  # the shared buffer is others' next
        return False

    def keep(self, at: int, need: int) -> bool:
        """Keep what lies at and after `at`, where a frame of `need` bytes in all begins.

        `need` is 0 while too little is there to know. False: the budget of large frames is spent
        now; what is there is kept, and `grow` must succeed before more is received.
        """
        rest = self.filled - at
        self._need = need
        if rest == 0:
            self.filled = 0
            if not self.holds_large:
                self.release()
            return True
        if self.reads_ahead and max(need, rest) < len(self._scratch):
            self._carry(at, rest, need)
            return True
        self._carried = False
        size = _room(need, rest)
        if self._own is not None and len(self._own) >= size + LENGTH_BYTES:
            if at > 0:
                self.view[:rest] = self.view[at : self.filled]
            self.filled = rest
            self._reach = min(need, len(self._own) - LENGTH_BYTES) or self._reach
            return True
        fits = self._fits(size)
        self._move(at, rest, need, size if fits else rest)
        return fits

    def grow(self) -> bool:
        """Make the room that `keep` could not have; False if the budget is still spent."""
        size = _room(self._need, self.filled)
        if not self._fits(size):
            return False
        self._move(0, self.filled, self._need, size)
        return True

    def release(self) -> None:
        """Give the connection's own buffer back, and with it what it held."""
        own, self._own = self._own, None
        self.view = self._scratch
        self.filled = self._need = self._reach = 0
        self._carried = False
        if own is not None:
            self._pool.give(own)

    def _carry(self, at: int, rest: int, need: int) -> None:
        """Keep `rest` bytes of `view` from `at` on, to be put before the next."""
        self._move(at, rest, need, rest)
        self._carried = True

    def _fits(self, need: int) -> bool:
        given_back = 0 if self._own is None else len(self._own)
        return need <= len(self._scratch) or self._pool.fits(need + LENGTH_BYTES, given_back)

    def _move(self, at: int, rest: int, need: int, capacity: int) -> None:
        fresh = self._pool.take(capacity + LENGTH_BYTES)
        view = memoryview(fresh)
        view[:rest] = self.view[at : at + rest]
        self.release()
        self._own, self.view, self.filled = fresh, view, rest
        self._need, self._reach = need, min(need, len(fresh) - LENGTH_BYTES)


def _room(need: int, rest: int) -> int:
    """Return the bytes an unfinished frame of `need` bytes gets when `rest` of it have come."""
    # Frames that wait behind it may make `rest` the greater.
    return max(rest, need if rest >= FIRST_ROOM_BYTES else min(need, FIRST_ROOM_BYTES))


def no_frame(size: int, frame_max: int) -> Malformed:
    """Tell why a frame of that size is not taken."""
    return Malformed(f"frame of {size} bytes announced, at most {frame_max} are taken")
