"""The order of spilling: the store with most bytes in memory goes first.

When memory becomes short all stores are checked once, a few thousand in a turn of the loop. From
then on each store reports when it has grown.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import Spillable

LOOK_QUEUES = 2000
"""Queues that are checked in a turn, which takes a millisecond."""


class HasStores(Protocol):
    """A queue with its stores. Implemented by `engine.message_queue.MessageQueue`."""

    @property
    def stores(self) -> Iterable[object]:
        """The message stores of the queue."""


AllQueues = Callable[[], Sequence[HasStores]]


class SpillOrder:
    """The stores with messages to write, the largest next."""

    def __init__(self, queues: AllQueues, bytes_min: int) -> None:
        """Create the order of stores.

        `queues` returns all queues; a store with less than `bytes_min` bytes is skipped.
        """
        self._queues = queues
        self._bytes_min = bytes_min
        self._unseen: list[HasStores] = []
        self._heap: list[tuple[int, int, Spillable]] = []
        self._numbers = count()
        self._bytes: dict[Spillable, int] = {}
        """Bytes of each store when it was last added; older entries of the heap are skipped."""

    def begin(self) -> None:
        """Begin to check all stores, by the following calls of `look`."""
        self._unseen = list(self._queues())

    def look(self) -> bool:
        """Check the stores of some more queues; return whether others are left."""
        for queue in self._unseen[-LOOK_QUEUES:]:
            for store in queue.stores:
                if isinstance(store, MemoryMessages):
                    self.put(store)
        del self._unseen[-LOOK_QUEUES:]
        return bool(self._unseen)

    def end(self) -> None:
        """Drop the order: memory is not short any more."""
        self._unseen, self._heap = [], []
        self._bytes.clear()

    def put(self, store: Spillable) -> None:
        """Add a store whose memory has grown, if it has enough bytes to be written."""
        size = store.bytes
        if size >= self._bytes_min and size >= 2 * self._bytes.get(store, 0):
            self._bytes[store] = size
            heappush(self._heap, (-size, next(self._numbers), store))

    def take(self) -> Spillable | None:
        """Remove and return the store with most bytes as last reported; None: no store is left."""
        while self._heap:
            size, _, store = heappop(self._heap)
            if self._bytes.get(store) == -size:
                del self._bytes[store]
                return store
        return None
