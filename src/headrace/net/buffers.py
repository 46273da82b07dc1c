"""`BufferPool`: reusable receive buffers for large frames.

The first touch of fresh memory costs more than receiving into it (2-4 CPU-seconds a GB on small
virtual machines), so buffers are pooled. Unused ones are freed periodically (`trim`).
"""

_CLASS_BITS_MIN = 12


class BufferPool:
    """Buffers by power-of-two capacity, and a limit on the bytes in use."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._free: dict[int, list[bytearray]] = {}
        self.bytes_out = 0
        """Capacity in bytes of all buffers in use."""

    def fits(self, size: int, given_back: int = 0) -> bool:
        """Return whether a buffer for `size` bytes is within the limit; a single one always is.

        `given_back`: capacity of the buffer that it replaces.
        """
        others = self.bytes_out - given_back
        return others == 0 or others + _capacity(size) <= self._bytes_max

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes; its content is undefined."""
        capacity = _capacity(size)
        self.bytes_out += capacity
        free = self._free.get(capacity)
        return free.pop() if free else bytearray(capacity)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer to the pool; the caller must hold no view of it."""
        capacity = len(buffer)
        self.bytes_out -= capacity
        self._free.setdefault(capacity, []).append(buffer)

    def trim(self) -> None:
        """Free the unused buffers."""
        self._free.clear()


def _capacity(size: int) -> int:
    return 1 << max(_CLASS_BITS_MIN, (size - 1).bit_length())
