"""Whose messages are written to disk first: those of the store that has most in memory.

When memory becomes short all stores are looked at once, a few thousand a turn. From then on each
says itself that it has grown.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from headrace.queues.stores.memory.memory_messages import MemoryMessages
from headrace.queues.stores.memory.memory_use import Spillable

LOOK_QUEUES = 2000
"""So many queues are looked at in a turn: a millisecond."""


class HasStores(Protocol):
    """A queue. `engine.message_queue.MessageQueue`."""

    @property
    def stores(self) -> Iterable[object]:
        """What its messages are kept in."""


AllQueues = Callable[[], Sequence[HasStores]]


class SpillOrder:
    """The stores that have something to be written, the largest next."""

    def __init__(self, queues: AllQueues, bytes_min: int) -> None:
        """`queues`: all there are; `bytes_min`: a store with less has nothing."""
        self._queues = queues
        self._bytes_min = bytes_min
        self._unseen: list[HasStores] = []
        self._heap: list[tuple[int, int, Spillable]] = []
        self._numbers = count()
        self._bytes: dict[Spillable, int] = {}
        """What each had when it was put in last; other entries of the heap are passed over."""

    def begin(self) -> None:
        """Look at all stores, from the next `look` on."""
        self._unseen = list(self._queues())

    def look(self) -> bool:
        """Look at some more stores; False: all were looked at."""
        for queue in self._unseen[-LOOK_QUEUES:]:
            for store in queue.stores:
                if isinstance(store, MemoryMessages):
                    self.put(store)
        del self._unseen[-LOOK_QUEUES:]
        return bool(self._unseen)

    def end(self) -> None:
        """Forget all: memory is not short any more."""
        self._unseen, self._heap = [], []
        self._bytes.clear()

    def put(self, store: Spillable) -> None:
        """Take a store that has grown, if it has enough."""
        size = store.bytes
        if size >= self._bytes_min and size >= 2 * self._bytes.get(store, 0):
            self._bytes[store] = size
            heappush(self._heap, (-size, next(self._numbers), store))

    def take(self) -> Spillable | None:
        """Take out the store that has most, as far as is known; None: there is none."""
        while self._heap:
            size, _, store = heappop(self._heap)
            if self._bytes.get(store) == -size:
                del self._bytes[store]
                return store
        return None
