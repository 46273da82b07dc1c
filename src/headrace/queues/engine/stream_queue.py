"""A stream: a queue whose messages stay, and whose consumers each read them from their own offset.

In place of the queue's order each consumer has a `MessageLevel` on a store of its own, its place in
the stream. Acknowledging, rejecting and requeueing only make room for more, as with RabbitMQ's
streams, and nothing is redelivered. A stream has no limits, priorities, expiry or dead letters.
"""

from typing import TYPE_CHECKING, Literal

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queues.engine.consumers import Consumers
from headrace.queues.engine.deliveries import Served, give
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.engine.ready_messages import QueueTraffic
from headrace.queues.message_store import MessageStore, StoredDone
from headrace.queues.port import Disposition, QueueInfo
from headrace.queues.refusals import Refused, precondition_failed, unsupported
from headrace.queues.stores.stream.durable_stream import DurableStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.queues.engine.dead_letters import DeadLetter
    from headrace.queues.engine.hosted_queue import Hooks
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.port import Consumer, Getter
    from headrace.queues.queue_settings import Published
    from headrace.queues.stores.stream.stream_reader import StreamReader

BATCH_MESSAGES_MAX = 1000
"""What one `deliver` gives out at most."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""The bytes of bodies after which it gives out no more."""
SHARE_MESSAGES_MAX = 100
"""What one reader is given before others have their turn."""


class StreamQueue:
    """A stream. `port.Queue`."""

    is_stream: Literal[True] = True
    refused: Refused | None = None
    timed = False
    """Time alone does not change it: retention is the log's."""
    is_left = False
    """It does not delete itself: no stream is auto-delete."""
    confirms_late = True
    confirms_transient = True

    def __init__(
        self, queue: "DeclaredQueue", title: str, store: MessageStore, hooks: "Hooks"
    ) -> None:
        """Refused PRECONDITION_FAILED: a stream cannot be in such a store."""
        if not isinstance(store, DurableStream):
            raise precondition_failed(
                f"{title} cannot be a stream: this broker keeps all queues in memory; declare it as"
                " a classic or a quorum queue"
            )
        self.declared = queue
        self.settings = queue.settings
        self.name = queue.name
        self.title = title
        self.consumer_timeout_ms = queue.settings.consumer_timeout_ms
        self.consumers = Consumers(single_active=False)
        self.traffic = QueueTraffic()
        self.late_stores = [store]
        self.failure: str | None = None
        self.last_batch = 0
        self.unacked = 0
        self.ready_bytes = 0
        """Not counted."""
        self.takes_turns = False
        self.more = False
        self.deleted = False
        self._stream = store
        self._hooks = hooks
        self._places: dict[Consumer, tuple[MessageLevel, StreamReader]] = {}
        self._log = store.attach(self)
        self.ready = store.ready

    @property
    def stores(self) -> list[MessageStore]:
        """The store of its messages."""
        return [self._stream]

    def info(self) -> QueueInfo:
        """Return the stream's numbers. `port.Queue`."""
        return QueueInfo(self.ready, self.ready_bytes, self.unacked, len(self.consumers))

    def touch(self, now: float) -> None:
        """Count messages: others write to the log, and its retention takes from it."""
        self.ready = self._stream.ready

    def begin_answer(self) -> None:
        """Do nothing: a stream does not expire while its declaration is stored."""

    def end_answer(self) -> None:
        """Do nothing."""

    def arm(self) -> None:
        """Do nothing: a stream has no timer."""

    def disarm(self) -> None:
        """Do nothing."""

    # Publishing

    def publish(self, published: "Published", now: float) -> bool:
        """Take a message: a stream is never full. Raises what its log raises."""
        self._log.append(published, None)
        self.traffic.published += 1
        return True

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` once all published so far is stored. `port.Target`."""
        self._stream.when_stored(done)

    # Consumers

    def consume(self, consumer: "Consumer", now: float) -> None:
        """Add a reader. Refused: it has no prefetch of its own, or acknowledges nothing."""
        if not consumer.prefetch:
            raise precondition_failed(f"consumer prefetch count is not set for stream {self.title}")
        if consumer.no_ack:
            raise unsupported(f"automatic acknowledgement not supported by stream {self.title}")
        if consumer.channel.prefetch:
            raise unsupported(f"{self.title} does not support global qos")
        # As RabbitMQ: the flag is accepted, and no consumer has a stream for itself.
        consumer.exclusive = False
        self.consumers.add(consumer, self.title)
        self.takes_turns = True
        reader = self._stream.reader(consumer.wishes)
        self._places[consumer] = MessageLevel(0, reader), reader

    def cancel(self, consumer: "Consumer", now: float) -> None:
        """Remove a reader, if it is there."""
        place = self._places.pop(consumer, None)
        if place is not None:
            self.consumers.remove(consumer)
            self._stream.leave(place[1])
            self.takes_turns = bool(self.consumers)

    def credit(self, consumer: "Consumer") -> None:
        """Let a reader take part again that had used up its credit. `port.Queue`."""
        if not self.deleted:
            self.consumers.enter(consumer)

    def get(self, getter: "Getter", now: float) -> None:
        """Refuse: a stream is consumed."""
        raise self._unsupported("basic.get")

    def purge(self) -> int:
        """Refuse: retention alone lets messages go."""
        raise self._unsupported("queue.purge")

    def _unsupported(self, method_name: str) -> Refused:
        return unsupported(f"{method_name} not supported by stream queues {self.title}")

    # Delivering

    def deliver(self, now: float) -> Served:
        """Deliver what is loaded to readers that have credit, a share to each in turn."""
        served: Served = {}
        count, size = BATCH_MESSAGES_MAX, BATCH_BYTES_MAX
        idle: list[Consumer] = []
        self.more = False
        while (ring := self.consumers.next_ring()) is not None:
            if count <= 0 or size <= 0:
                self.more = True
                break
            consumer = ring.popleft()
            level, _ = self._places[consumer]
            share = min(consumer.credit(), count, SHARE_MESSAGES_MAX)
            taken = level.take(share, size)
            if taken is None:
                idle.append(consumer)
                continue
            self.unacked += give(consumer, taken, served, now)
            self.traffic.delivered_of(taken)
            count -= len(taken.positions)
            size -= sum(taken.sizes)
            ring.append(consumer)
        for consumer in idle:
            self.consumers.enter(consumer)
        self._stream.end_turn(complete=not self.more)
        return served

    def settle(
        self, disposition: Disposition, positions: "Sequence[int]", sizes: "Sequence[int]" = ()
    ) -> None:
        """Make room for more: for all other readers the messages are there as before."""
        self.unacked -= len(positions)
        if self.unacked < 0 and not self.deleted:
            self.broke(InvariantError("more deliveries are settled than were made"))
        if disposition is Disposition.ACKNOWLEDGED:
            self.traffic.acknowledged += len(positions)

    def take_dead_letters(self) -> "list[DeadLetter]":
        """Return none: no message of a stream dies."""
        return []

    def dead_letters_stored(self, letters: "Iterable[DeadLetter]") -> None:
        """Do nothing."""

    # Ends

    def broke(self, error: InvariantError) -> None:
        """Have the stream closed: its state contradicts itself. `StoreOwner`."""
        self._hooks.broke(self, error)

    def abandon(self, refused: Refused) -> None:
        """Do nothing any more: the stream is closed. Its messages stay."""
        self.deleted = True
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self._stream.abandon()

    def drop_stores(self) -> None:
        """Delete the messages."""
        self._stream.drop()

    def expire(self, now: float) -> bool:
        """Return False: a stream does not expire."""
        return False

    def delete(self) -> int:
        """Delete the stream; returns 0: RabbitMQ does not say how many messages it had."""
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self.deleted = True
        self._stream.drop()
        return 0

    # What the store says

    def readable(self) -> None:
        """Let readers go on. `StoreOwner`."""
        self.ready = self._stream.ready
        self._hooks.readable(self)

    def opened(self, priority: int, store: MessageStore) -> None:
        """Publish to the log from now on. `StoreOwner`."""
        self._log = store

    def log_made(self) -> None:
        """Note nothing: a stream has one log. `StoreOwner`."""

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Note nothing: readers find what Kafka's producers wrote. `StoreOwner`."""

    def failed(self, error: HeadraceError) -> None:
        """Let readers find out. `StoreOwner`."""
        self._hooks.readable(self)
