"""A running queue of a virtual host: its declaration, message stores and timer."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import (
    LateStore,
    MessageStore,
    StoredDone,
    keeps_late,
    when_all,
)
from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.queues.engine.dead_letters import DeadLetter
from headrace.queues.engine.deliveries import Served
from headrace.queues.engine.parts.batch_queue import BatchQueue
from headrace.queues.engine.parts.handed_queue import HandedQueue
from headrace.queues.engine.parts.pausing_queue import PausingQueue
from headrace.queues.engine.parts.purging_queue import PurgingQueue
from headrace.queues.engine.parts.settings_changes import ChangingQueue
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import (
    ALL_STORED,
    ALL_UNSTORED,
    Disposition,
    Getter,
    UnstoredDone,
)
from headrace.queues.refusals import Refused

if TYPE_CHECKING:
    from headrace.queues.engine.delivery_turns import AnyQueue


def as_stored(done: UnstoredDone) -> StoredDone:
    """Return the callback of a store that stores all messages, or loses them all."""
    return lambda stored: done(ALL_STORED if stored else ALL_UNSTORED)


MakeStore = Callable[[DeclaredQueue, int], MessageStore]


def stores_in_memory(use: MemoryUse) -> MakeStore:
    """Return a function that makes an in-memory store for a queue's priority, counted by `use`."""
    return lambda queue, priority: MemoryMessages(use)


class Hooks(NamedTuple):
    """Callbacks from a queue to its vhost's host: timer, readable messages, broken state."""

    time_up: Callable[["AnyQueue"], None]
    """The timer has expired: messages, or the queue itself, may have expired."""
    readable: Callable[["AnyQueue"], None]
    """Messages may have become deliverable."""
    broke: Callable[["AnyQueue", InvariantError], None]
    """An invariant of the queue's state is broken."""


class HostedQueue(PausingQueue, BatchQueue, PurgingQueue, HandedQueue, ChangingQueue):
    """A queue with its stores and timer; notifies its host of changes so that it delivers."""

    is_stream: Literal[False] = False
    last_number = None
    """Always None: a message that was accepted is refused with all others only. `port.Target`."""
    refused: Refused | None = None
    """The error with which all but deletion is refused; None but in a `ClosedQueue`."""

    def __init__(
        self,
        queue: DeclaredQueue,
        title: str,
        make_store: MakeStore,
        deadlines: Deadlines,
        hooks: Hooks,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        """Create the queue.

        `kept`: existing stores by priority; `make_store` makes those of other priorities.
        """
        self.declared = queue
        self.name = queue.name
        self.failure: str | None = None
        """Why its store refused a message; None: no failure to report. `port.Target`."""
        self.last_batch = 0
        """Number of its last delivered batch, counted over all queues; 0: none so far."""
        self.late_stores: list[LateStore] = []
        """Those of its stores that report messages as stored only after a delay."""
        self.confirms_transient = queue.settings.queue_type is not QueueType.CLASSIC
        """Whether confirms wait also for messages that are not persistent. `port.Target`."""
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
        """Whether the passing of time alone may change the queue."""

    @property
    def stores(self) -> list[MessageStore]:
        """The message stores of all its priorities."""
        return [level.store for level in self._levels.values()]

    def arm(self) -> None:
        """Set the timer to the time of the next expiry, or cancel the timer."""
        due_at = self.next_deadline()
        if due_at is None:
            self._timer.cancel()
        elif due_at != self._timer.at:
            self._timer.set(max(0.0, due_at - self._clock.monotonic()))

    def disarm(self) -> None:
        """Stop the queue's timer and release its callback."""
        self._timer.end()

    def _new_store(self, priority: int) -> MessageStore:
        return self._take_over(self._make(self.declared, priority))

    def _take_over(self, store: MessageStore) -> MessageStore:
        """Attach the queue as owner of a store; return the store to read and append by."""
        if self.declared.durable and keeps_late(type(store)):
            late = cast("LateStore", store)
            self.late_stores.append(late)
            return late.attach(self)
        return store.attach(self) if isinstance(store, MemoryMessages) else store

    def drop_stores(self) -> None:
        """Delete the messages in the queue's stores, ready or unacknowledged."""
        if not self.late_stores:
            super().drop_stores()
        for store in self.late_stores:
            store.drop()

    def begin(self) -> None:
        """Continue after `pause`: this broker is the queue's only leader."""
        if self.paused:
            self.end_pause(self._clock.monotonic())
            self._hooks.time_up(self)

    # Settings

    def apply(self, settings: QueueSettings) -> None:
        """Use other settings from now on. Implements `port.Queue`."""
        try:
            self.change(settings, self._clock.monotonic())
        except InvariantError as error:
            self._hooks.broke(self, error)

    def deliver_later(self) -> None:
        """Have the queue deliver, expire and drop messages in a later turn of the loop."""

        def begin() -> None:
            self.begin_slice()
            self._hooks.readable(self)

        self._clock.call_later(0, begin)

    # Publishes that wait for the disk

    @property
    def confirms_late(self) -> bool:
        """Whether messages are stored some time after they were accepted.

        Implements `port.Target`.
        """
        return bool(self.late_stores)

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` once all messages published so far are stored. Implements `port.Target`."""
        stores = self.late_stores
        if len(stores) == 1:
            stores[0].when_stored(as_stored(done))
        else:
            when_all(stores, as_stored(done))

    # Publishes that wait for the decision whether the queue is deleted

    def hold_if_empty(self) -> bool:
        """Have later publishes wait until `release_publishes`; False: a message is ready.

        A cluster deletes the queue after this broker has counted its messages, and publishes of
        that time must be neither confirmed nor delivered. Messages in memory do not wait.
        """
        if self.ready or self.is_loading:
            return False
        for store in self.late_stores:
            store.hold()
        return True

    def release_publishes(self) -> None:
        """Store the publishes that wait since `hold_if_empty`: the queue is not deleted."""
        for store in self.late_stores:
            store.release()

    # Answers that wait for the disk

    @property
    def in_use(self) -> bool:
        """Whether the queue has consumers, waiting gets or unanswered declarations."""
        return super().in_use or self._answers > 0 or bool(self._getters)

    def begin_answer(self) -> None:
        """Note that a declaration of the queue is being stored."""
        self._answers += 1

    def end_answer(self) -> None:
        """Note that the declaration is answered; the time without use begins."""
        self._answers -= 1
        if not self.deleted:
            self.touch(self._clock.monotonic())
            if self.timed:
                self.arm()

    # A state that contradicts itself

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Settle deliveries; close the queue if an invariant is broken. Implements `port.Queue`."""
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
        """Close the queue because its store's state contradicts itself. Implements `StoreOwner`."""
        self._hooks.broke(self, error)

    def abandon(self, refused: Refused) -> None:
        """Stop the queue because it is closed: refuse waiting gets, abandon the stores.

        Messages on the disk stay.
        """
        self._stop(refused)
        for store in self.late_stores:
            store.abandon()

    def resign(self, refused: Refused) -> None:
        """Stop the queue because another broker leads it: refuse waiting gets, release the stores.

        Publishes that are not confirmed are reported as unstored. Both may close channels: these
        requeue what they hold before the queue ends, so that `handover` does not name it.
        """
        self._refuse_waiting(refused)
        for store in self.late_stores:
            store.resign()
        self._stop(refused)

    def _stop(self, refused: Refused) -> None:
        self.deleted = True
        self.disarm()
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self._refuse_waiting(refused)

    def _refuse_waiting(self, refused: Refused) -> None:
        """Answer the basic.gets and purges that wait."""
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.done(refused)
        self.end_purges(refused)

    @property
    def is_loading(self) -> bool:
        """Whether messages of the log are still being loaded: the queue is not empty."""
        return any(store.is_loading() for store in self.late_stores)

    # Messages that are not loaded yet

    def get(self, getter: Getter, now: float) -> None:
        """Give the next message to a basic.get once it is loaded. Implements `port.Queue`."""
        self._getters.append(getter)
        try:
            self._serve_getters(now)
        except InvariantError as error:
            self._hooks.broke(self, error)

    def deliver(self, now: float) -> Served:
        """Deliver messages up to the consumers' credit; waiting basic.gets are served first."""
        if self._getters:
            self._serve_getters(now)
        return super().deliver(now)

    def _serve_getters(self, now: float) -> None:
        getters = self._getters
        while getters and not self.paused:
            getter = getters[0]
            if getter.consumer.channel.closed:
                getters.popleft()
                continue
            got = self.take_one(getter.consumer, now)
            if got is None and self._store_error is None and (self.ready or self.is_loading):
                return
            getters.popleft()
            if got is None and self._store_error is None:
                self.traffic.got_empty += 1
            getter.done(self._store_error if got is None else got)

    def delete(self) -> int:
        """Delete the queue, end waiting basic.gets; return the number of ready messages."""
        count = super().delete()
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.done(None)
        self.end_purges(0)
        return count

    # Events from stores: `StoreOwner`

    def readable(self) -> None:
        """Deliver soon: messages have become readable in a store. Implements `StoreOwner`."""
        if self.settlements is not None:
            self.settlements.advance()
        if self.takes_turns or self._getters or self._expiring or self._limited:
            self._hooks.readable(self)

    def opened(self, priority: int, store: MessageStore) -> None:
        """Replace the store of a priority by its log, once open. Implements `StoreOwner`."""
        kept = self._levels[priority].open(store)
        self.ready += kept.ready
        self.ready_bytes += kept.ready_bytes
        if kept.expiring:
            self._expiring = self.timed = True
        if kept.ready or self._getters:
            self._hooks.readable(self)
        if not self.is_loading:
            self.end_opening()

    def log_made(self) -> None:
        """Open the logs of all priorities: Kafka producers may write to any.

        Implements `StoreOwner`.
        """
        if self.deleted:
            return
        for priority in range((self.settings.priority_max or 0) + 1):
            self._level_of(priority)
        for store in self.late_stores:
            store.want_log()

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Count messages that Kafka producers wrote, and deliver soon. Implements `StoreOwner`."""
        if self.deleted:
            return
        try:
            self.note_arrived(priority, count, size, self._clock.monotonic())
        except InvariantError as error:
            self._hooks.broke(self, error)
        else:
            self._hooks.readable(self)

    def refused_late(self, priority: int, count: int, size: int, error: HeadraceError) -> None:
        """Forget messages that have no log; waiting basic.gets of an empty queue get the error.

        Implements `StoreOwner`.
        """
        level = self._levels[priority]
        level.fresh -= count
        level.claimed = min(level.claimed, level.fresh)
        self.ready -= count
        self.ready_bytes -= size
        if self.ready:
            return
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.done(error)

    def failed(self, error: HeadraceError) -> None:
        """Answer waiting basic.gets with a store's error. Implements `StoreOwner`."""
        self._store_error = error
        self.end_opening()
        self._hooks.readable(self)
