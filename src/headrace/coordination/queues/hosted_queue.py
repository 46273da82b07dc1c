"""A queue of a virtual host at work: as it was declared, with its messages and its timer."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from headrace.coordination.queues.declarations import Queue
from headrace.coordination.queues.memory_messages import MemoryMessages
from headrace.coordination.queues.memory_use import MemoryUse
from headrace.coordination.queues.message_queue import MessageQueue
from headrace.coordination.queues.message_store import MessageStore
from headrace.ports.deadlines import Deadlines

StoredDone = Callable[[bool], None]


@runtime_checkable
class LateStore(Protocol):
    """A store that keeps a message for good some time after it has taken it: a log."""

    def when_stored(self, done: StoredDone) -> None:
        """Tell `done` once all that was appended so far is kept for good; False: it never will."""


MakeStore = Callable[[Queue, int], MessageStore]


def stores_in_memory(use: MemoryUse) -> MakeStore:
    """Return what makes the store of one priority of a queue, in memory that `use` counts."""
    return lambda queue, priority: MemoryMessages(use)


class HostedQueue(MessageQueue):
    """One queue. Whoever changes it tells its host, which lets it hand out and sets its timer."""

    def __init__(
        self,
        queue: Queue,
        title: str,
        make_store: MakeStore,
        deadlines: Deadlines,
        time_up: Callable[["HostedQueue"], None],
    ) -> None:
        """`time_up`: called when messages, or the queue itself, may be too old."""
        self.declared = queue
        self.name = queue.name
        self.trouble: str | None = None
        """Why its store could not take a message; None: nobody has to be told."""
        self.late_stores: list[LateStore] = []
        """Those of its stores that keep messages later than they take them."""
        self._make = make_store
        self._clock = deadlines.clock
        self._timer = deadlines.deadline(partial(time_up, self))
        self.timed = queue.settings.ttl_ms is not None or queue.settings.expires_ms is not None
        """Whether time alone may change it."""
        super().__init__(title, queue.settings, self._new_store, self._clock.monotonic())

    def arm(self) -> None:
        """Set the timer to when time alone changes something."""
        due_at = self.next_deadline()
        if due_at is None:
            self._timer.cancel()
        elif due_at != self._timer.at:
            self._timer.set(max(0.0, due_at - self._clock.monotonic()))

    def disarm(self) -> None:
        """Let the timer do nothing any more."""
        self._timer.end()

    def _new_store(self, priority: int) -> MessageStore:
        store = self._make(self.declared, priority)
        if self.declared.durable and isinstance(store, LateStore):
            self.late_stores.append(store)
        return store
