"""The older messages of a store in memory, of which some are on disk.

    position:  front (in memory, delivered next) | extents (most on disk only) | the store's own

Of the extents on disk two or three are in memory: the one that is delivered from and the next one,
and the one that was last read for earlier messages, requeued or dead-lettered ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from headrace.queue_stores.memory.memory_use import SpillPort
from headrace.queue_stores.memory.message_run import Found, MessageRun
from headrace.queue_stores.memory.spill_extent import OBJECT_BYTES, Extent

_END = attrgetter("end")


class Store(Protocol):
    """The store of the messages. Implemented by `memory_messages.MemoryMessages`."""

    def note_bytes(self, size: int) -> None:
        """Count `size` more bytes of memory of the store's messages (negative: fewer)."""

    def readable(self) -> None:
        """Note that more messages can be read."""

    def failed(self, error: Exception) -> None:
        """Note that some messages cannot be read back."""


class SpilledMessages:
    """All but the newest messages of an in-memory store, in memory or on disk.

    Implements `spill_extent.ExtentOwner`.
    """

    __slots__ = ("_again", "_ahead", "_extents", "_handed_out", "_spill", "_store", "front")

    def __init__(self, store: Store, spill: SpillPort, front: MessageRun) -> None:
        """Create the spilled part of a store.

        `front` has all messages that the store had so far.
        """
        self.front = front
        self._store = store
        self._spill = spill
        self._extents: list[Extent] = []
        """The extents in order of positions, without wholly settled ones."""
        self._handed_out = 0
        """Position below which messages were delivered."""
        self._ahead: Extent | None = None
        """The extent that is delivered from; None: none is."""
        self._again: Extent | None = None
        """The extent that was last read for requeued messages; None: none was."""

    @property
    def start(self) -> int:
        """A position below which there are no spilled or older messages."""
        return self.front.start

    @property
    def is_empty(self) -> bool:
        """Whether there are no spilled or older messages."""
        return not self._extents and self.front.is_empty

    def add(self, extent: Extent) -> None:
        """Add an extent of the store's newest messages, or of the last ones of `front`."""
        extents = self._extents
        at = len(extents) if not extents or extents[-1].base < extent.base else 0
        extents.insert(at, extent)
        self._store.note_bytes(OBJECT_BYTES)

    # Reading

    def read(self, position: int, count: int) -> Found | None:
        """Return unsettled messages from `position` on, empty if not loaded; None: none left."""
        front = self.front
        if position < front.end:
            found = front.read(position, count)
            if found[1]:
                return found
            if position <= front.start:
                front.clear()
        extents = self._extents
        for at in range(self._find(position), len(extents)):
            lowest = extents[at].lowest(position)
            if lowest is not None:
                return self._read_extent(at, lowest, count)
        return None

    def _read_extent(self, at: int, position: int, count: int) -> Found:
        extent = self._extents[at]
        if not extent.is_at_hand:
            # Loaded extents stay meanwhile: they may be read next.
            self._spill.load(extent)
            if not extent.is_at_hand:
                return (), ()
        if extent.file is not None:
            self._spill.note_used(extent)
        if position < self._handed_out:
            passed, self._again = self._again, extent
        else:
            passed, self._ahead = self._ahead, extent
            self._want_next(at + 1)
        self._let_go(passed)
        return extent.read(position, count)

    def _want_next(self, at: int) -> None:
        if at < len(self._extents) and not self._extents[at].is_at_hand:
            self._spill.load_ahead(self._extents[at])

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message in memory, in monotonic seconds; None: none."""
        at = self._find(position)
        if at == len(self._extents) or self._extents[at].base > position:
            return None
        return self._extents[at].expires_at(position)

    def note_handed_out(self, below: int) -> None:
        """Note that messages below a position may have been delivered."""
        self._handed_out = below
        ahead = self._ahead
        if ahead is not None and ahead.end <= below:
            self._ahead = None
            self._let_go(ahead)

    def _find(self, position: int) -> int:
        """Return the index of the first extent that ends above a position."""
        extents = self._extents
        if extents and position < extents[0].end:
            return 0
        return bisect_right(extents, position, key=_END)

    # Lifecycle of extents

    def loaded(self, extent: Extent) -> None:
        """Note that the messages of an extent were read back."""
        self._store.note_bytes(extent.held)
        self._store.readable()

    def written(self, extent: Extent) -> None:
        """Free an extent's messages, which are on disk now, unless they are delivered next.

        They may all be settled.
        """
        if extent is self._ahead:
            self._spill.note_used(extent)
        else:
            self.release(extent)

    def release(self, extent: Extent) -> None:
        """Free the messages of an extent that is on disk."""
        if extent.file is not None and extent.is_at_hand:
            self._store.note_bytes(-extent.release())
            self._spill.released(extent)

    def failed(self, error: Exception) -> None:
        """Note that an extent cannot be read back."""
        self._store.failed(error)

    def _let_go(self, extent: Extent | None) -> None:
        if extent is not None and extent is not self._ahead and extent is not self._again:
            self.release(extent)

    # Settling

    def forget(self, positions: Sequence[int]) -> None:
        """Remove settled messages, in ascending order; positions without a message are skipped."""
        front, extents = self.front, self._extents
        at = bisect_left(positions, front.end)
        if at:
            self._store.note_bytes(-front.forget(positions[:at]))
        while at < len(positions):
            index = self._find(positions[at])
            if index == len(extents):
                return
            extent = extents[index]
            at = bisect_left(positions, extent.base, at)
            stop = bisect_left(positions, extent.end, at)
            if at < stop:
                self._settle(index, extent, positions[at:stop])
            at = stop

    def _settle(self, index: int, extent: Extent, positions: Sequence[int]) -> None:
        freed = extent.settle(positions)
        if not extent.left:
            freed += OBJECT_BYTES
            del self._extents[index]
            self._spill.gone(extent)
            if extent is self._ahead:
                self._ahead = None
            if extent is self._again:
                self._again = None
        self._store.note_bytes(-freed)
