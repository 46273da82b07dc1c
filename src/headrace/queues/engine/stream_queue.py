"""A stream: a queue that retains messages, and whose consumers each read from their own offset.

Instead of the queue's order each consumer has a `MessageLevel` on a store of its own, its position
in the stream. Acknowledging, rejecting and requeueing only give credit, as with RabbitMQ's streams,
and nothing is redelivered. A stream has no limits, priorities, expiry or dead letters.
"""

from typing import TYPE_CHECKING, Literal, cast

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queue_stores.message_store import BatchStore, MessageStore
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queues.engine.consumers import Consumers
from headrace.queues.engine.deliveries import Served
from headrace.queues.engine.hosted_queue import as_stored
from headrace.queues.engine.stream_readers import StreamReaders, check_reader
from headrace.queues.port import Disposition, QueueInfo
from headrace.queues.queue_traffic import QueueTraffic
from headrace.queues.refusals import Refused, precondition_failed, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.queue_stores.queue_settings import Published, PublishedRun, QueueSettings
    from headrace.queues.engine.dead_letters import DeadLetter
    from headrace.queues.engine.hosted_queue import Hooks
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.port import ConsumeDone, Consumer, Getter, PurgeDone, UnstoredDone


class StreamQueue:
    """A stream queue: its log, its readers and their deliveries. Implements `port.Queue`."""

    is_stream: Literal[True] = True
    refused: Refused | None = None
    timed = False
    """Always False: time alone does not change a stream, retention is the log's."""
    is_left = False
    """Always False: no stream is auto-delete."""
    paused = False
    """Always False: readers of a stream do not exclude each other, so it has no sole leader."""
    confirms_late = True
    confirms_transient = True
    last_number = None

    def __init__(
        self, queue: "DeclaredQueue", title: str, store: MessageStore, hooks: "Hooks"
    ) -> None:
        """Raise Refused PRECONDITION_FAILED if the store is no log, which a stream needs."""
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
        self.traffic = QueueTraffic()
        self.readers = StreamReaders(title, store, self.traffic)
        self.late_stores = [store]
        self.failure: str | None = None
        self.last_batch = 0
        self.ready_bytes = 0
        """Always 0: bytes are not counted."""
        self.takes_turns = False
        self.deleted = False
        self._stream = store
        self._hooks = hooks
        self._log = store.attach(self)
        self.ready = store.ready

    @property
    def stores(self) -> list[MessageStore]:
        """The store of its messages, as a list."""
        return [self._stream]

    @property
    def consumers(self) -> Consumers:
        """Its readers on this broker, and those on others that this one serves."""
        return self.readers.consumers

    @property
    def unacked(self) -> int:
        """Number of deliveries that are not settled."""
        return self.readers.unacked

    @property
    def more(self) -> bool:
        """Whether the last `deliver` has left messages for readers with credit."""
        return self.readers.more

    def ask_info(self, done: "Callable[[QueueInfo], None]") -> None:
        """Report the numbers of stored and unacknowledged messages and of readers.

        Implements `port.Queue`.
        """
        done(QueueInfo(self.ready, self.ready_bytes, self.unacked, len(self.consumers)))

    def apply(self, settings: "QueueSettings") -> None:
        """Use other settings; retention is that of the stream's topic. Implements `port.Queue`."""
        self.settings = settings
        self.consumer_timeout_ms = settings.consumer_timeout_ms

    def touch(self, now: float) -> None:
        """Count the messages again, as Kafka producers and retention change the log."""
        self.ready = self._stream.ready

    def begin_answer(self) -> None:
        """Ignore that a declaration is being stored: a stream does not expire."""

    def end_answer(self) -> None:
        """Ignore that a declaration was answered: a stream does not expire."""

    def arm(self) -> None:
        """Set no timer: a stream does not expire."""

    def disarm(self) -> None:
        """Cancel no timer: a stream has none."""

    # Publishing

    def publish(self, published: "Published", now: float) -> bool:
        """Append a message to the log, and return True: a stream is never full.

        Raises what the log raises.
        """
        self._log.append(published, None)
        self.traffic.published += 1
        return True

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of messages that the log takes in one batch; 0: it is not open yet."""
        return self._log.batch_bytes_max if isinstance(self._log, BatchStore) else 0

    def takes_batch(self, runs: "Sequence[PublishedRun]") -> bool:
        """Tell whether `publish_batch` may be called: the log is open."""
        return isinstance(self._log, BatchStore)

    def publish_batch(self, runs: "Sequence[PublishedRun]", batch: bytes, now: float) -> int:
        """Append the messages of a batch, unless the log has them; return their number.

        Raises what the log raises.
        """
        log = cast("BatchStore", self._log)
        count = sum(len(run.messages) for run in runs)
        if not log.has_batch(batch):
            for run in runs:
                log.append_all(run.messages, persistent=run.persistent)
            self.traffic.published += count
            log.write(batch)
        return count

    def when_stored(self, done: "UnstoredDone") -> None:
        """Call `done` once all messages published so far are stored. Implements `port.Target`."""
        self._stream.when_stored(as_stored(done))

    # Consumers

    def consume(self, consumer: "Consumer", now: float, done: "ConsumeDone") -> None:
        """Add a reader at the offset it asks for.

        Raises Refused without a prefetch limit of its own, or with no-ack.
        """
        check_reader(consumer, self.title)
        self.readers.add(consumer)
        self.takes_turns = True
        done(None)

    def cancel(self, consumer: "Consumer", now: float) -> None:
        """Remove a stream's reader, if registered."""
        if self.readers.remove(consumer):
            self.takes_turns = bool(self.consumers)

    def credit(self, consumer: "Consumer") -> None:
        """Let a parked reader that has credit again take turns. Implements `port.Queue`."""
        if not self.deleted:
            self.readers.enter(consumer)

    def get(self, getter: "Getter", now: float) -> None:
        """Raise Refused: basic.get is not supported by streams."""
        raise self._unsupported("basic.get")

    def ask_purge(self, done: "PurgeDone") -> None:
        """Raise Refused: only retention removes messages of a stream."""
        raise self._unsupported("queue.purge")

    def _unsupported(self, method_name: str) -> Refused:
        return unsupported(f"{method_name} not supported by stream queues {self.title}")

    # Delivering

    def deliver(self, now: float) -> Served:
        """Deliver loaded messages to readers with credit, a share to each in turn."""
        return self.readers.deliver(now)

    def settle(
        self, disposition: Disposition, positions: "Sequence[int]", sizes: "Sequence[int]" = ()
    ) -> None:
        """Give the reader credit for settled deliveries; the messages stay for all readers."""
        self.readers.unacked -= len(positions)
        if self.unacked < 0 and not self.deleted:
            self.broke(InvariantError("more deliveries are settled than were made"))
        if disposition is Disposition.ACKNOWLEDGED:
            self.traffic.acknowledged += len(positions)

    def take_dead_letters(self) -> "list[DeadLetter]":
        """Return an empty list: a stream has no dead letters."""
        return []

    def dead_letters_stored(self, letters: "Iterable[DeadLetter]") -> None:
        """Ignore the call: a stream has no dead letters."""

    # Ends

    def broke(self, error: InvariantError) -> None:
        """Close the stream because its state contradicts itself. Implements `StoreOwner`."""
        self._hooks.broke(self, error)

    def abandon(self, refused: Refused) -> None:
        """Stop the stream because it is closed; its messages on disk stay."""
        self.deleted = True
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self._stream.abandon()

    def resign(self, refused: Refused) -> None:
        """Stop the stream because another broker leads it, where its readers go on."""
        self.deleted = True
        self.readers.resign()
        self._stream.resign()

    def drop_stores(self) -> None:
        """Delete the stream's messages with its log."""
        self._stream.drop()

    def expire(self, now: float) -> bool:
        """Return False: a stream does not expire."""
        return False

    def delete(self) -> int:
        """Delete the stream; return 0, as RabbitMQ reports no number of its messages."""
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self.deleted = True
        self._stream.drop()
        return 0

    # Events from the store: `StoreOwner`

    def readable(self) -> None:
        """Let readers continue: messages have become readable. Implements `StoreOwner`."""
        self.ready = self._stream.ready
        self._hooks.readable(self)

    def opened(self, priority: int, store: MessageStore) -> None:
        """Publish to the log, once it is open. Implements `StoreOwner`."""
        self._log = store

    def log_made(self) -> None:
        """Ignore the call: a stream has no further logs to open. Implements `StoreOwner`."""

    def arrived(self, priority: int, count: int, size: int) -> None:
        """Ignore the call: readers find what Kafka producers wrote. Implements `StoreOwner`."""

    def refused_late(self, priority: int, count: int, size: int, error: HeadraceError) -> None:
        """Count the messages again. Implements `StoreOwner`."""
        self.ready = self._stream.ready

    def failed(self, error: HeadraceError) -> None:
        """Let readers continue, which find the store's error. Implements `StoreOwner`."""
        self._hooks.readable(self)
