"""`Inbox`: the receive buffer of a connection, until its bytes are whole frames."""

from headrace.model.errors import Malformed
from headrace.net.buffers import BufferPool

LENGTH_BYTES = 4

FIRST_ROOM_BYTES = (64 << 10) - LENGTH_BYTES
"""First buffer of a large frame: the full size follows when this many bytes have arrived.

Otherwise three length fields of 100 MB without data would use up the memory limit of all
connections. For a batch of 1 MB one read usually brings as much.
"""


class Inbox:
    """Receives into a buffer shared by all connections, or its own during an unfinished frame.

    Safe, as a read is received and handled before the loop turns to another connection. The rest of
    an unfinished frame moves to an own buffer that grows to the frame's size. A buffer larger than
    the shared one stays for the next frames, so that large frames are received in place: the kernel
    makes the only copy.

    With `reads_ahead`, for small frames, the rest of a frame is put before the next bytes in the
    shared buffer, so that each read brings all whole frames that have arrived.
    """

    __slots__ = (
        "_carried", "_need", "_own", "_pool", "_reach", "_scratch", "filled", "reads_ahead", "view",
    )  # fmt: skip

    def __init__(self, scratch: memoryview, pool: BufferPool) -> None:
        self._scratch = scratch
        self._pool = pool
        self._own: bytearray | None = None
        self._need = 0  # bytes of the whole unfinished frame, 0 if unknown
        self._reach = 0  # end of one read into the own buffer: the last large frame's end
        # whether the own buffer's bytes go before the next ones in the shared buffer
        self._carried = False
        self.reads_ahead = False
        """Whether to receive more than the rest of an unfinished frame at once."""
        self.view: memoryview = scratch
        """The received, unhandled bytes: `view[:filled]`."""
        self.filled = 0

    @property
    def holds_large(self) -> bool:
        """Whether its own buffer counts against the memory limit of large frames."""
        return self._own is not None and len(self._own) > len(self._scratch)

    def space(self) -> memoryview:
        """Return the memory for the next bytes: never empty; up to the frame's end if known."""
        if self._own is None:
            return self._scratch
        filled = self.filled
        if self._carried:
            self._scratch[:filled] = self.view[:filled]
            return self._scratch[filled:]
        return self.view[filled : max(self._reach, filled + LENGTH_BYTES)]

    def received(self, nbytes: int) -> bool:
        """Count `nbytes` received into `space`; return whether there may be a whole frame.

        An unfinished frame of known size with room left needs no check.
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
        self._carry(0, filled + nbytes, need)  # another connection uses the shared buffer next
        return False

    def keep(self, at: int, need: int) -> bool:
        """Keep the bytes from `at` on, where an unfinished frame of `need` bytes begins.

        `need` is 0 if it is unknown. False: no memory for it now; the bytes are kept, and `grow`
        must succeed before more is received.
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
        """Get the memory that `keep` could not; return False if the limit is still reached."""
        size = _room(self._need, self.filled)
        if not self._fits(size):
            return False
        self._move(0, self.filled, self._need, size)
        return True

    def release(self) -> None:
        """Return the connection's own buffer to the pool and drop its content."""
        own, self._own = self._own, None
        self.view = self._scratch
        self.filled = self._need = self._reach = 0
        self._carried = False
        if own is not None:
            self._pool.give(own)

    def _carry(self, at: int, rest: int, need: int) -> None:
        """Keep `rest` bytes of `view` from `at` on, to put before the next ones."""
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
    """Return the buffer size for a frame of `need` bytes of which `rest` have arrived."""
    # With further frames behind it, `rest` may be the greater.
    return max(rest, need if rest >= FIRST_ROOM_BYTES else min(need, FIRST_ROOM_BYTES))


def no_frame(size: int, frame_max: int) -> Malformed:
    """Return the error for a frame of invalid size."""
    return Malformed(f"frame length {size} is invalid, the limit is {frame_max} bytes")
