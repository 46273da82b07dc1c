"""One queue: what is published goes to whom it is due, and is his until he says what became of it.

Who drives a queue calls `deliver` after what may give it something to hand out: a publish, a
consumer, a channel's `woken`, a store that read or committed more. It takes what died with
`take_dead_letters`, and says with `dead_letters_stored` when others hold that. It calls `expire`
when `next_deadline` has come. Times are monotonic seconds, the caller's.

What is handed out to a channel that has closed since goes nowhere: it is back in the queue.

Order is the order of positions in each level; what is put back is at its place again. Where a
limit or a lifetime of 0 asks for consumers at that moment, messages are handed out at once and
given out by the next `deliver`.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.model.invariant import invariant
from headrace.queues.engine.consumers import Consumers
from headrace.queues.engine.dead_letters import DeadLetter, DeathReason
from headrace.queues.engine.deliveries import Served, deal, named
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.engine.ready_messages import ReadyMessages
from headrace.queues.message_store import GoesWithQueue, MessageStore
from headrace.queues.port import ANY_NUMBER, Consumer, Disposition, Got, QueueInfo
from headrace.queues.queue_settings import Overflow, Published, QueueSettings

BATCH_MESSAGES_MAX = 1000
"""What one `deliver` gives out at most."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""The bytes of bodies after which it gives out no more."""


class MessageQueue(ReadyMessages):
    """A queue's messages and consumers."""

    def __init__(
        self,
        title: str,
        settings: QueueSettings,
        make_store: Callable[[int], MessageStore],
        now: float,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        """Begin with what is `kept`, by priority; `make_store` is asked for levels to come.

        `title`: what RabbitMQ calls the queue in its texts: queue 'q' in vhost '/'.
        """
        super().__init__(settings, make_store, kept or {})
        self.title = title
        self.consumers = Consumers(
            settings.single_active_consumer, hands_over=settings.active_hands_over
        )
        self.consumer_timeout_ms = settings.consumer_timeout_ms
        self.unacked = 0
        """Messages that are out."""
        self.takes_turns = settings.dead_letters
        """It has consumers, or dead letters to publish: what is published may go on at once."""
        self.more = False
        """`deliver` stopped at its bounds: it is to be called again."""
        self._had_consumers = False
        self._used_at = now
        self._served: Served = {}
        self._width = 1 + (settings.priority_max or 0)

    # Publishing

    def publish(self, published: Published, now: float) -> bool:
        """Take a message; False: the queue is full and refuses it, to be nacked.

        Raises what the store raises; then the message is nowhere.
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
        if expires_at is not None and self.consumers.can_take(self.ready):
            level.claimed = level.fresh
        self.ready_bytes += len(message.body)
        if self._limited or (expires_at is not None and expires_at <= now):
            self._run(now)
        return True

    def note_arrived(self, priority: int, count: int, size: int, now: float) -> None:
        """Note `count` messages, `size` bytes, of Kafka producers. Limits hold for them, too."""
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
        if settings.overflow is Overflow.REJECT_PUBLISH_DLX and settings.dead_letters:
            self._dying.append(DeadLetter(DeathReason.MAXLEN, None, -1, published.message))
        return True

    # Consumers

    def consume(self, consumer: Consumer, now: float) -> None:
        """Add a consumer. Refused: another has the queue for itself, or would."""
        self.consumers.add(consumer, self.title)
        self._had_consumers = self.takes_turns = True
        self._used_at = now

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer, if it is there. What it holds stays with its channel."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.takes_turns = bool(self.consumers) or self.settings.dead_letters
            self._used_at = now

    def take_one(self, consumer: Consumer, now: float) -> Got | None:
        """Take the next message for a basic.get; None: none is loaded."""
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
        self.traffic.delivered_of(taken)
        if self._expiring:  # what is of age behind it is no longer left: get-ok tells that
            self._expire_head(now)
        return Got(deliveries, self.ready)

    @property
    def in_use(self) -> bool:
        """Whether it does not expire by `x-expires`: it has consumers."""
        return bool(self.consumers)

    @property
    def is_left(self) -> bool:
        """Whether it had consumers and has none any more: an auto-delete queue goes then."""
        return self._had_consumers and not self.consumers

    def touch(self, now: float) -> None:
        """Note that the queue was declared again, which puts `x-expires` off."""
        self._used_at = now

    # Handing out

    def deliver(self, now: float) -> Served:
        """Deliver as much as consumers have credit for, up to the bounds of a batch.

        Returns the channels that are to `send`, with what was delivered before by `publish`.
        """
        if not self._expiring or self._expire_head(now):
            self._hand_out(now, BATCH_MESSAGES_MAX, BATCH_BYTES_MAX)
            if self._limited:
                self._trim()
        served, self._served = self._served, {}
        return served

    def _run(self, now: float) -> None:
        """Hand out what can be, then let go what is over a limit or of age."""
        if self._expiring and not self._expire_head(now, just_before=True):
            return
        self._hand_out(now, ANY_NUMBER, ANY_NUMBER)
        self._trim()
        if self._expiring:
            self._expire_head(now)

    def _hand_out(self, now: float, count: int, size: int) -> None:
        """Hand out `count` messages at most, and none after `size` bytes."""
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
                self.unacked += deal(takers, taken, self._served, now, self._width)
                self.traffic.delivered_of(taken)
                count -= served
                size -= sum(taken.sizes)
            consumers.end_turns(ring, takers, served)
            if taken is None:
                return

    def _has_ready(self, now: float) -> bool:
        """Tell whether messages are ready; what is of age before the first of them dies."""
        enough = not self._expiring or self._expire_head(now, just_before=True)
        return enough and self.ready > 0

    # What channels say

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Settle deliveries. `port.Queue`."""
        if self.deleted:
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
            self._requeue(level, positions, sizes)
        else:
            self._die(level, positions, DeathReason.REJECTED)

    def _requeue(self, level: MessageLevel, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Put messages, of bodies of `sizes` bytes, back; those requeued too often die."""
        limit = self.settings.delivery_limit
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
        """Put messages back, and let those die that came back more than `limit` times."""
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
        """Let a consumer take part again that had used up its credit. `port.Queue`."""
        if not self.deleted:
            self.consumers.enter(consumer)

    def info(self) -> QueueInfo:
        """Return the queue's numbers. `port.Queue`."""
        return QueueInfo(self.ready, self.ready_bytes, self.unacked, len(self.consumers))

    # Limits and lives

    def next_deadline(self) -> float | None:
        """Return when `expire` may change something, None: not by itself."""
        head = self._head_expires_at() if self._expiring else None
        if self.settings.expires_ms is None or self.in_use:
            return head
        unused = self._used_at + self.settings.expires_ms / 1000
        return unused if head is None else min(head, unused)

    def expire(self, now: float) -> bool:
        """Let die whose time is up; True: nobody uses the queue, which is to be deleted."""
        if self._expiring:
            self._expire_head(now)
        if self.settings.expires_ms is None or self.in_use:
            return False
        return self._used_at + self.settings.expires_ms / 1000 <= now

    # Ends

    def delete(self) -> int:
        """Delete the queue; returns how many messages were ready.

        Its consumers are to be told; what channels hold of it is forgotten when they settle it.
        """
        for consumer in self.consumers:
            consumer.channel.forget(consumer)
        self.deleted = True
        count = self.purge()
        self.drop_stores()
        return count

    def drop_stores(self) -> None:
        """Delete the messages that are stored, ready or not."""
        for level in self._levels.values():
            if isinstance(level.store, GoesWithQueue):
                level.store.drop()
