"""Receive buffers that are used again.

The first touch of fresh memory costs more than receiving into it (2-4 CPU-seconds a GB on small
virtual machines), so buffers of large frames go back to a pool and are handed out again. What
nobody used for a while is given back to the system.
"""

_CLASS_BITS_MIN = 12


class BufferPool:
    """Buffers by power-of-two capacity, and the budget of what may be out at once."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._free: dict[int, list[bytearray]] = {}
        self.bytes_out = 0
        """Capacity of all buffers handed out now."""

    def fits(self, size: int, given_back: int = 0) -> bool:
        """Tell whether a buffer for `size` bytes is within the budget; one alone always is.

        `given_back`: capacity of the buffer that it replaces.
        """
        others = self.bytes_out - given_back
        return others == 0 or others + _capacity(size) <= self._bytes_max

    def take(self, size: int) -> bytearray:
        """Hand out a buffer of at least `size` bytes, its content left from earlier use."""
        capacity = _capacity(size)
        self.bytes_out += capacity
        free = self._free.get(capacity)
        return free.pop() if free else bytearray(capacity)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back. The giver keeps no view of it."""
        capacity = len(buffer)
        self.bytes_out -= capacity
        self._free.setdefault(capacity, []).append(buffer)

    def trim(self) -> None:
        """Give what lies unused back to the system."""
        self._free.clear()


def _capacity(size: int) -> int:
    return 1 << max(_CLASS_BITS_MIN, (size - 1).bit_length())
