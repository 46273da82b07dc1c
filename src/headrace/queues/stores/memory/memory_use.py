"""What all queues in memory hold together: one number, and marks on the way to a bound for all.

At the first mark messages begin to be written to disk (`spill`), at the second who publishes is
stopped: the disk does not keep up, or takes nothing. At the bound nothing is taken at all.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.queues.stores.memory.spill_extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY_BYTES_MAX = 256 << 20
"""Where nobody says: the mark from which publishers are stopped."""
HARD_FACTOR = 2
"""So many times the mark nothing more is taken at all: what is moved by dead lettering, and what
was read before a publisher was stopped, goes above the mark."""
CLEAR_SHARE = 0.9
"""Below this share of the mark publishers go on: not with each message that goes."""
SWEEP_MESSAGES = 10_000
"""How many messages of those that were purged go at a time: some milliseconds."""


class Sweepable(Protocol):
    """A store with messages that are settled and still in memory."""

    def sweep(self, count: int) -> int:
        """Let up to `count` of them go; returns how many are left."""


class Spillable(Protocol):
    """A store in memory whose messages may be written to disk. `memory_messages.MemoryMessages`."""

    bytes: int
    """What it has in memory takes so much."""

    def cut(self, size: int) -> list[Extent]:
        """Give out messages that are needed last, some `size` bytes of them, to be written.

        None of them: there are too few.
        """


class SpillPort(Protocol):
    """Where messages go while memory is short. `spill.Spill`."""

    extent_bytes: int
    """What the messages of an extent take in memory."""
    extent_bytes_min: int
    """Fewer are not written."""

    def note_grown(self, store: Spillable) -> None:
        """Have messages written, perhaps of this store: it took one above the first mark."""

    def load(self, extent: Extent) -> None:
        """Read an extent back; its owner is told, perhaps at once."""

    def load_ahead(self, extent: Extent) -> None:
        """Read an extent back that is next but not needed yet, if memory has room for it."""

    def note_used(self, extent: Extent) -> None:
        """Note that the messages of an extent, which is on disk too, are being used."""

    def released(self, extent: Extent) -> None:
        """Note that the messages of an extent are not at hand any more."""

    def gone(self, extent: Extent) -> None:
        """Note that all messages of an extent are settled."""


class MemoryUse:
    """Counts the bytes of messages in memory over all queues of a broker."""

    __slots__ = (
        "_sweepable", "bytes", "bytes_hard_max", "bytes_max", "is_short", "on_short", "on_sweep",
        "spill", "spill_at",
    )  # fmt: skip

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        """`bytes_max`: the mark from which publishers are stopped."""
        self.bytes = 0
        """Stores add to it and take from it."""
        self.bytes_max = bytes_max
        self.bytes_hard_max = HARD_FACTOR * bytes_max
        self.spill: SpillPort | None = None
        """Where messages go that memory has no room for; None: nowhere."""
        self.spill_at = self.bytes_hard_max
        """The mark from which they do."""
        self.is_short = False
        """Whether publishers are to be stopped, as `look` found it."""
        self.on_short: Callable[[], None] = lambda: None
        """Called by `look` when `is_short` has changed."""
        self.on_sweep: Callable[[], None] = lambda: None
        """Called when `sweep` has something to do: it is to be called soon, and again."""
        self._sweepable: dict[Sweepable, None] = {}

    def look(self) -> None:
        """Tell whether publishers are to be stopped, or may go on."""
        mark = self.bytes_max * CLEAR_SHARE if self.is_short else self.bytes_max
        if (self.bytes >= mark) is not self.is_short:
            self.is_short = not self.is_short
            self.on_short()

    def to_sweep(self, store: Sweepable) -> None:
        """Have the settled messages of a store go a few at a time."""
        if not self._sweepable:
            self.on_sweep()
        self._sweepable[store] = None

    def sweep(self) -> bool:
        """Let some settled messages go; True: there are more, for the next turn of the loop."""
        for store in self._sweepable:
            if not store.sweep(SWEEP_MESSAGES):
                del self._sweepable[store]
            break
        return bool(self._sweepable)
