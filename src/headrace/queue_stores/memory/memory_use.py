"""Memory of all queues: one counter, and the marks on the way to its hard limit.

hard limit      ----  messages are refused        bytes_hard_max
limit           ----  publishers are blocked      bytes_max: the disk is too slow, or fails
first mark      ----  messages go to disk         spill_at
"""

from typing import TYPE_CHECKING, Protocol

from headrace.queue_stores.memory.spill_extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY_BYTES_MAX = 256 << 20
"""Default limit in bytes, at which publishers are blocked."""
HARD_FACTOR = 2
"""Hard limit as a multiple of the limit.

Dead letters, and messages read before a publisher was blocked, exceed the limit.
"""
CLEAR_SHARE = 0.9
"""Share of the limit below which publishers resume, so that they do not flap."""
SWEEP_MESSAGES = 10_000
"""Purged messages that are freed at a time, which takes some milliseconds."""


class Sweepable(Protocol):
    """A store with settled messages that are still in memory."""

    def sweep(self, count: int) -> int:
        """Free up to `count` settled messages; return how many are left."""


class Spillable(Protocol):
    """An in-memory store that can spill messages to disk.

    Implemented by `memory_messages.MemoryMessages`.
    """

    bytes: int
    """Bytes of its messages in memory."""

    def cut(self, size: int) -> list[Extent]:
        """Remove messages of about `size` bytes, those needed last, to be written to disk.

        Returns an empty list if there are too few.
        """


class SpillPort(Protocol):
    """The spilling of messages while memory is short. Implemented by `spill.Spill`."""

    extent_bytes: int
    """Bytes of memory of an extent's messages."""
    extent_bytes_min: int
    """Bytes below which an extent is not written."""

    def note_grown(self, store: Spillable) -> None:
        """Have messages written, perhaps of this store, which grew above the first mark."""

    def load(self, extent: Extent) -> None:
        """Read an extent back; its owner is notified, perhaps at once."""

    def load_ahead(self, extent: Extent) -> None:
        """Read back an extent that is needed next, if there is memory for it."""

    def note_used(self, extent: Extent) -> None:
        """Note a use of an extent's messages, which are on disk, too."""

    def released(self, extent: Extent) -> None:
        """Note that the messages of an extent were freed in memory."""

    def gone(self, extent: Extent) -> None:
        """Note that all messages of an extent are settled."""


class MemoryUse:
    """Counter of the bytes of messages in memory, over all queues of a broker."""

    __slots__ = (
        "_sweepable", "bytes", "bytes_hard_max", "bytes_max", "is_short", "on_short", "on_sweep",
        "spill", "spill_at",
    )  # fmt: skip

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        """Create a counter of 0 bytes. `bytes_max` is the limit at which publishers are blocked."""
        self.bytes = 0
        """Bytes of messages in memory, maintained by the stores."""
        self.bytes_max = bytes_max
        self.bytes_hard_max = HARD_FACTOR * bytes_max
        self.spill: SpillPort | None = None
        """Writes messages to disk; None: no spilling."""
        self.spill_at = self.bytes_hard_max
        """Bytes above which messages are written to disk."""
        self.is_short = False
        """Whether publishers are to be blocked, as of the last `look`."""
        self.on_short: Callable[[], None] = lambda: None
        """Called by `look` when `is_short` has changed."""
        self.on_sweep: Callable[[], None] = lambda: None
        """Called when stores have messages to free: `sweep` must be called soon."""
        self._sweepable: dict[Sweepable, None] = {}

    def look(self) -> None:
        """Compare the memory of messages with the limit; report a change of `is_short`."""
        mark = self.bytes_max * CLEAR_SHARE if self.is_short else self.bytes_max
        if (self.bytes >= mark) is not self.is_short:
            self.is_short = not self.is_short
            self.on_short()

    def to_sweep(self, store: Sweepable) -> None:
        """Have a store's settled messages freed in parts."""
        if not self._sweepable:
            self.on_sweep()
        self._sweepable[store] = None

    def sweep(self) -> bool:
        """Free some settled messages; return whether more are left for the loop's next turn."""
        for store in self._sweepable:
            if not store.sweep(SWEEP_MESSAGES):
                del self._sweepable[store]
            break
        return bool(self._sweepable)
