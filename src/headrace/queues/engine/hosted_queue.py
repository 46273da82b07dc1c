"""A queue of a virtual host at work: as it was declared, with its messages and its timer."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.deadlines import Deadlines
from headrace.queues.engine.dead_letters import DeadLetter
from headrace.queues.engine.deliveries import Served
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.message_store import LateStore, MessageStore, StoredDone, keeps_late, when_all
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import Disposition, Getter
from headrace.queues.queue_settings import QueueType
from headrace.queues.refusals import Refused
from headrace.queues.stores.memory.memory_messages import MemoryMessages
from headrace.queues.stores.memory.memory_use import MemoryUse

if TYPE_CHECKING:
    from headrace.queues.engine.delivery_turns import AnyQueue

PURGED_AT_ONCE = 2000
"""Messages that one call of `purge_below` settles: some milliseconds."""
MakeStore = Callable[[DeclaredQueue, int], MessageStore]


def stores_in_memory(use: MemoryUse) -> MakeStore:
    """Return what makes the store of one priority of a queue, in memory that `use` counts."""
    return lambda queue, priority: MemoryMessages(use)


class Purged(Enum):
    """How far a call has purged a queue."""

    ALL = "all"
    SOME = "some"
    NOT_AT_HAND = "not at hand"
    """What is next is still being read from the disk."""


class Hooks(NamedTuple):
    """What a queue tells its host of."""

    time_up: Callable[["AnyQueue"], None]
    """Messages, or the queue itself, may be too old."""
    readable: Callable[["AnyQueue"], None]
    """It may have something to deliver that it had not."""
    broke: Callable[["AnyQueue", InvariantError], None]
    """Its state contradicts itself."""


class HostedQueue(MessageQueue):
    """A queue. A change is told to its host, which lets it deliver and sets its timer."""

    is_stream: Literal[False] = False
    refused: Refused | None = None
    """Why all but deletion is refused: only of a `ClosedQueue`."""

    def __init__(
        self,
        queue: DeclaredQueue,
        title: str,
        make_store: MakeStore,
        deadlines: Deadlines,
        hooks: Hooks,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        """`kept`: stores that there were before, by priority, which `make_store` made."""
        self.declared = queue
        self.name = queue.name
        self.failure: str | None = None
        """Why its store could not take a message; None: publishers know all. `port.Target`."""
        self.last_batch = 0
        """The number of the batch that it handed out last, of all queues': 0: none so far."""
        self.late_stores: list[LateStore] = []
        """Those of its stores that keep messages later than they take them."""
        self.confirms_transient = queue.settings.queue_type is not QueueType.CLASSIC
        """It stores messages that are not persistent, too. `port.Target`."""
        self._make = make_store
        self._clock = deadlines.clock
        self._hooks = hooks
        self._timer = deadlines.deadline(partial(hooks.time_up, self))
        self._getters: deque[Getter] = deque()
        self._answers = 0
        self._store_error: HeadraceError | None = None
        own = {priority: self._take_over(store) for priority, store in (kept or {}).items()}
        now = self._clock.monotonic()
        super().__init__(title, queue.settings, self._new_store, now, own)
        self.timed = (
            queue.settings.ttl_ms is not None
            or queue.settings.expires_ms is not None
            or self._expiring
        )
        """Whether time alone may change it."""

    @property
    def stores(self) -> list[MessageStore]:
        """What its messages are kept in, of all priorities."""
        return [level.store for level in self._levels.values()]

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
        return self._take_over(self._make(self.declared, priority))

    def _take_over(self, store: MessageStore) -> MessageStore:
        """Take a store that was made; returns the one to be asked for messages."""
        if self.declared.durable and keeps_late(type(store)):
            late = cast("LateStore", store)
            self.late_stores.append(late)
            return late.attach(self)
        return store.attach(self) if isinstance(store, MemoryMessages) else store

    def drop_stores(self) -> None:
        """Delete the messages that are stored, ready or not."""
        if not self.late_stores:
            super().drop_stores()
        for store in self.late_stores:
            store.drop()

    # Publishes that wait for the disk

    @property
    def confirms_late(self) -> bool:
        """Whether messages are stored some time after they are taken. `port.Target`."""
        return bool(self.late_stores)

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` once all published so far is stored. `port.Target`."""
        stores = self.late_stores
        if len(stores) == 1:
            stores[0].when_stored(done)
        else:
            when_all(stores, done)

    # Answers that wait for the disk

    @property
    def in_use(self) -> bool:
        """Whether it does not expire: it has consumers, or a declaration or a get is unanswered."""
        return super().in_use or self._answers > 0 or bool(self._getters)

    def begin_answer(self) -> None:
        """Note that it was declared, and that this is being stored."""
        self._answers += 1

    def end_answer(self) -> None:
        """Note that the declaration is answered: its time without use begins."""
        self._answers -= 1
        if not self.deleted:
            self.touch(self._clock.monotonic())
            if self.timed:
                self.arm()

    # A state that contradicts itself

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Settle deliveries. `port.Queue`."""
        try:
            super().settle(disposition, positions, sizes)
        except InvariantError as error:
            self._hooks.broke(self, error)

    def dead_letters_stored(self, letters: Iterable[DeadLetter]) -> None:
        """Settle dead letters that were published or that have no route."""
        try:
            super().dead_letters_stored(letters)
        except InvariantError as error:
            self._hooks.broke(self, error)

    def broke(self, error: InvariantError) -> None:
        """Have the queue closed: its store's state contradicts itself. `StoreOwner`."""
        self._hooks.broke(self, error)

    def abandon(self, refused: Refused) -> None:
        """Do nothing any more: the queue is closed. Its messages on disk stay."""
        self.deleted = True
        self.disarm()
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.done(refused)
        for store in self.late_stores:
            store.abandon()

    # Messages that are not at hand at once

    def get(self, getter: Getter, now: float) -> None:
        """Give the next message once it is loaded. `port.Queue`."""
        self._getters.append(getter)
        try:
            self._serve_getters(now)
        except InvariantError as error:
            self._hooks.broke(self, error)

    def deliver(self, now: float) -> Served:
        """Deliver as much as consumers have credit for; a waiting basic.get goes first."""
        if self._getters:
            self._serve_getters(now)
        return super().deliver(now)

    def _serve_getters(self, now: float) -> None:
        getters = self._getters
        while getters:
            getter = getters[0]
            if getter.consumer.channel.closed:
                getters.popleft()
                continue
            got = self.take_one(getter.consumer, now)
            if got is None and self.ready and self._store_error is None:
                return
            getters.popleft()
            getter.done(self._store_error if got is None else got)

    def delete(self) -> int:
        """Delete the queue; who waits for one of its messages gets none."""
        count = super().delete()
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.done(None)
        return count

    def purge_below(self, priority: int, below: int) -> Purged:
        """Settle some of what is ready below a position; to be called again until that is all."""
        level = self._levels.get(priority)
        if self.deleted or level is None:
            return Purged.ALL
        taken = level.take_below(below, PURGED_AT_ONCE)
        if taken is None:
            return Purged.ALL
        if not taken.positions:
            return Purged.ALL if self._store_error is not None else Purged.NOT_AT_HAND
        self.ready -= len(taken.positions)
        self.ready_bytes -= sum(taken.sizes)
        level.settle(taken.positions)
        return Purged.SOME

    # What stores say

    def readable(self) -> None:
        """Let it deliver soon, if it has anything to do with messages. `StoreOwner`."""
        if self.takes_turns or self._getters or self._expiring or self._limited:
            self._hooks.readable(self)

    def opened(self, priority: int, store: MessageStore) -> None:
        """Ask the log of a priority from now on. `StoreOwner`."""
        self._levels[priority].store = store

    def log_made(self) -> None:
        """Have the logs of all priorities read: others may write to any. `StoreOwner`."""
        if self.deleted:
            return
        for priority in range((self.settings.priority_max or 0) + 1):
            self._level_of(priority)
        for store in self.late_stores:
            store.want_log()

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Take messages that others wrote. `StoreOwner`."""
        if self.deleted:
            return
        try:
            self.note_arrived(priority, count, size, self._clock.monotonic())
        except InvariantError as error:
            self._hooks.broke(self, error)
        else:
            self._hooks.readable(self)

    def failed(self, error: HeadraceError) -> None:
        """Tell who waits for messages that there will be none. `StoreOwner`."""
        self._store_error = error
        self._hooks.readable(self)
