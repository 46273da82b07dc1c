"""A queue: delivers messages to consumers with credit, and keeps them until they are settled.

The owner of a queue calls `deliver` after each event that may allow a delivery: a publish, a new
consumer, new credit, a store that has read or committed more. It publishes what `take_dead_letters`
returns, and reports with `dead_letters_stored` when the targets have stored it. It calls `expire`
at `next_deadline`. Times are monotonic seconds, passed by the caller.

Messages delivered to a channel that has closed since are not sent: they are requeued.

Messages of a level are delivered in the order of their positions; a requeued message is at its
position again. Where a limit or a TTL of 0 depends on consumers at the moment of the publish,
messages are delivered within `publish`, and sent by the channels after the next `deliver`.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.model.invariant import invariant
from headrace.queue_stores.message_store import GoesWithQueue, MessageStore
from headrace.queue_stores.queue_settings import Overflow, Published, QueueSettings
from headrace.queues.engine.consumers import Consumers
from headrace.queues.engine.dead_letters import DeadLetter, DeathReason
from headrace.queues.engine.deliveries import Served, deal, named
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.engine.ready_messages import ReadyMessages
from headrace.queues.port import (
    ANY_NUMBER,
    ConsumeDone,
    Consumer,
    Disposition,
    Got,
    PurgeDone,
    Queue,
    QueueInfo,
)

BATCH_MESSAGES_MAX = 1000
"""Messages that one `deliver` delivers at most."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of bodies after which one `deliver` stops."""


class MessageQueue(ReadyMessages):
    """A queue's messages and consumers: publishes, deliveries, settlements, limits, expiry."""

    def __init__(
        self,
        title: str,
        settings: QueueSettings,
        make_store: Callable[[int], MessageStore],
        now: float,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        """Begin with the stores of `kept`, by priority; `make_store` makes those of others.

        `title` is the queue's name in RabbitMQ's texts: queue 'q' in vhost '/'.
        """
        super().__init__(settings, make_store, kept or {})
        self.title = title
        self.consumers = Consumers(
            settings.single_active_consumer, hands_over=settings.active_hands_over
        )
        self.consumer_timeout_ms = settings.consumer_timeout_ms
        self.unacked = 0
        """Number of delivered messages that are not settled."""
        self.takes_turns = settings.dead_letters
        """Whether a publish may allow a delivery at once: there are consumers or dead letters."""
        self.more = False
        """Whether `deliver` stopped at its bounds and is to be called again."""
        self.successor: Queue | None = None
        """The queue elsewhere that settles what channels hold of this one; None: it is led here."""
        self.check: Callable[[], None] | None = None
        """Pauses queues whose right to be led here has ended; None: a single broker's."""
        self._had_consumers = False
        self._used_at = now
        self._served: Served = {}
        self._width = 1 + (settings.priority_max or 0)

    # Publishing

    def publish(self, published: Published, now: float) -> bool:
        """Accept a message; return False if the queue is full and refuses it (a nack).

        Raises what the store raises; the message is then stored nowhere. `now` in monotonic
        seconds.
        """
        message = published.message
        if self._limited and self._refuses(published, now):
            return False
        settings = self.settings
        level = self._plain
        if settings.priority_max is not None:
            level = self._level_of(min(published.priority, settings.priority_max))
        expires_at = None
        if settings.ttl_ms is not None or published.expiration_ms is not None:
            lives = (settings.ttl_ms, published.expiration_ms)
            expires_at = now + min(life for life in lives if life is not None) / 1000
            self._expiring = True
        level.store.append(published, expires_at)
        level.fresh += 1
        self.ready += 1
        self.traffic.published += 1
        if expires_at is not None and not self.paused and self.consumers.can_take(self.ready):
            level.claimed = level.fresh
        self.ready_bytes += len(message.body)
        if self._limited or (expires_at is not None and expires_at <= now):
            self._run(now)
        return True

    def note_arrived(self, priority: int, count: int, size: int, now: float) -> None:
        """Count `count` messages of `size` bytes from Kafka producers; the limits apply to them."""
        self._level_of(priority).fresh += count
        self.traffic.published += count
        self.ready += count
        self.ready_bytes += size
        if self._limited:
            self._run(now)

    def _refuses(self, published: Published, now: float) -> bool:
        settings = self.settings
        if settings.never_refuses(published):
            return False
        self._run(now)
        if not settings.exceeds(self.ready + 1, self.ready_bytes + len(published.message.body)):
            return False
        self._refused(published)
        return True

    def _refused(self, published: Published) -> None:
        """Dead-letter a refused message, if the queue does so."""
        settings = self.settings
        if settings.overflow is Overflow.REJECT_PUBLISH_DLX and settings.dead_letters:
            self._dying.append(DeadLetter(DeathReason.MAXLEN, None, -1, published.message))

    # Consumers

    def consume(self, consumer: Consumer, now: float, done: ConsumeDone) -> None:
        """Add a consumer; raise Refused if another one is exclusive, or this one and not alone.

        Implements `port.Queue`.
        """
        self.consumers.add(consumer, self.title)
        self._had_consumers = self.takes_turns = True
        self._used_at = now
        done(None)

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer, if registered; its unacknowledged deliveries stay with its channel."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.takes_turns = bool(self.consumers) or self.settings.dead_letters
            self._used_at = now

    def take_one(self, consumer: Consumer, now: float) -> Got | None:
        """Take the next message for a basic.get; None: no message is ready and loaded."""
        self._used_at = now
        self._run(now)
        taken = self._take(1, ANY_NUMBER)
        if taken is None:
            return None
        deliveries = named(taken, self._width)
        if consumer.no_ack:
            taken.level.settle(taken.positions)
        else:
            self.unacked += 1
        self.traffic.get(no_ack=consumer.no_ack, redelivered=taken.redelivered)
        if self._expiring:  # get-ok has the count of ready messages, without expired ones
            self._expire_head(now)
        return Got(deliveries, self.ready)

    @property
    def in_use(self) -> bool:
        """Whether the queue does not expire by `x-expires`: it has consumers."""
        return bool(self.consumers)

    @property
    def is_left(self) -> bool:
        """Whether its last consumer has left: an auto-delete queue is deleted then."""
        return self._had_consumers and not self.consumers

    def touch(self, now: float) -> None:
        """Note that the queue was declared again: the time of `x-expires` begins again."""
        self._used_at = now

    # Handing out

    def deliver(self, now: float) -> Served:
        """Deliver messages up to the consumers' credit and the bounds of a batch.

        Returns the channels that are to `send`, including those that `publish` delivered to before.
        """
        if not self._expiring or self._expire_head(now):
            self._hand_out(now, BATCH_MESSAGES_MAX, BATCH_BYTES_MAX)
            if self._limited:
                self._trim()
        served, self._served = self._served, {}
        return served

    def _run(self, now: float) -> None:
        """Deliver without bounds, then dead-letter or drop messages over a limit or expired."""
        if self.check is not None:
            self.check()
        if self.paused:
            return
        if self._expiring and not self._expire_head(now, just_before=True):
            return
        self._hand_out(now, ANY_NUMBER, ANY_NUMBER)
        self._trim()
        if self._expiring:
            self._expire_head(now)

    def _hand_out(self, now: float, count: int, size: int) -> None:
        """Deliver up to `count` messages; stop once their bodies reach `size` bytes."""
        self.more = False
        consumers = self.consumers
        while self._has_ready(now):
            ring = consumers.next_ring()
            if ring is None:
                self._end_claims()
                return
            if count <= 0 or size <= 0:
                self.more = True
                return
            takers, turns = consumers.take_turns(ring, min(count, self.ready))
            taken = self._take(min(count, turns * len(takers)), size, now)
            served = 0
            if taken is not None:
                served = len(taken.positions)
                unacked = deal(takers, taken, self._served, now, self._width)
                self.unacked += unacked
                self.traffic.deliver(served, unacked, redelivered=taken.redelivered)
                count -= served
                size -= sum(taken.sizes)
            consumers.end_turns(ring, takers, served)
            if taken is None:
                return

    def _has_ready(self, now: float) -> bool:
        """Tell whether messages are ready, once expired ones before them are dead-lettered."""
        enough = not self._expiring or self._expire_head(now, just_before=True)
        return enough and self.ready > 0

    # Calls from channels

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Acknowledge, requeue or dead-letter deliveries by their positions.

        Implements `port.Queue`.
        """
        if self.deleted:
            if self.successor is not None:
                self.successor.settle(disposition, positions, sizes)
            return
        self.unacked -= len(positions)
        invariant(self.unacked >= 0, "more deliveries are settled than were made")
        if self._width == 1:
            self._settle(self._plain, disposition, positions, sizes)
            return
        for at, position in enumerate(positions):
            own, priority = divmod(position, self._width)
            level = self._level_of(priority)
            self._settle(level, disposition, (own,), sizes[at : at + 1])

    def _settle(
        self,
        level: MessageLevel,
        disposition: Disposition,
        positions: Sequence[int],
        sizes: Sequence[int],
    ) -> None:
        if disposition is Disposition.ACKNOWLEDGED:
            self.traffic.acknowledged += len(positions)
            level.settle(positions)
        elif disposition is Disposition.REQUEUED:
            self._requeue(level, positions, sizes, self.settings.delivery_limit)
        elif disposition is Disposition.UNDELIVERED:
            self._requeue(level, positions, sizes, None)
        else:
            self._die(level, positions, DeathReason.REJECTED)

    def _requeue(
        self,
        level: MessageLevel,
        positions: Sequence[int],
        sizes: Sequence[int],
        limit: int | None,
    ) -> None:
        """Requeue messages with `sizes` bytes, or dead-letter those over the delivery limit."""
        if limit is None:
            level.give_back(positions)
            self.ready += len(positions)
            self.ready_bytes += sum(sizes)
        else:
            self._requeue_counted(level, positions, sizes, limit)
        self._trim()

    def _requeue_counted(
        self, level: MessageLevel, positions: Sequence[int], sizes: Sequence[int], limit: int
    ) -> None:
        """Requeue messages, and dead-letter those that were requeued more than `limit` times."""
        for position, size in zip(positions, sizes, strict=True):
            count = level.returns.get(position, 0) + 1
            level.returns[position] = count
            level.store.note_returned(position, count)
            if count > limit:
                self._die(level, (position,), DeathReason.DELIVERY_LIMIT)
                continue
            level.give_back((position,))
            self.ready += 1
            self.ready_bytes += size

    def credit(self, consumer: Consumer) -> None:
        """Let a parked consumer that has credit again take turns. Implements `port.Queue`."""
        if not self.deleted:
            self.consumers.enter(consumer)

    def ask_purge(self, done: PurgeDone) -> None:
        """Settle all ready messages, and report their number. Implements `port.Queue`."""
        done(self.purge())

    def ask_info(self, done: Callable[[QueueInfo], None]) -> None:
        """Report the numbers of ready and unacknowledged messages and consumers.

        Implements `port.Queue`.
        """
        done(QueueInfo(self.ready, self.ready_bytes, self.unacked, len(self.consumers)))

    # Limits and lives

    def next_deadline(self) -> float | None:
        """Return the monotonic time at which `expire` is to be called; None: no expiry is due."""
        head = self._head_expires_at() if self._expiring else None
        if self.settings.expires_ms is None or self.in_use:
            return head
        unused = self._used_at + self.settings.expires_ms / 1000
        return unused if head is None else min(head, unused)

    def expire(self, now: float) -> bool:
        """Dead-letter or drop expired messages; return whether the queue expired by `x-expires`."""
        if self._expiring:
            self._expire_head(now)
        if self.settings.expires_ms is None or self.in_use:
            return False
        return self._used_at + self.settings.expires_ms / 1000 <= now

    # Ends

    def delete(self) -> int:
        """Delete the queue and its messages; return how many messages were ready.

        The owner notifies its consumers. Later settlements of its deliveries are ignored.
        """
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self.deleted = True
        count = self.purge()
        self.drop_stores()
        return count

    def drop_stores(self) -> None:
        """Delete the messages in the queue's stores, ready or unacknowledged."""
        for level in self._levels.values():
            if isinstance(level.store, GoesWithQueue):
                level.store.drop()
