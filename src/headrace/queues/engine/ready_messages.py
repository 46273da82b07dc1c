"""A queue's ready messages, in levels by priority; dropped when expired or over a limit."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.model.invariant import invariant
from headrace.queues.engine.dead_letters import DeadLetter, DeathReason, with_messages
from headrace.queues.engine.priority_level import MessageLevel, Taken
from headrace.queues.message_store import MessageStore
from headrace.queues.port import ANY_NUMBER
from headrace.queues.queue_settings import Overflow, QueueSettings
from headrace.wire.amqp.content import Message

EXPIRED_BATCH_MAX = 1000
"""The most messages that one call expires; `next_deadline` stays in the past if more remain."""


class QueueTraffic:
    """Counters of a queue's messages since the broker started."""

    __slots__ = ("acknowledged", "delivered", "discarded", "published", "redelivered")

    def __init__(self) -> None:
        self.published = 0
        """Accepted, from clients, Kafka's producers and as dead letters."""
        self.delivered = 0
        """Delivered to consumers or by basic.get, each delivery."""
        self.redelivered = 0
        """Those of them that may have been delivered before."""
        self.acknowledged = 0
        self.discarded = 0
        """Expired, rejected, or over a length or delivery limit; dead-lettered ones included."""

    def delivered_of(self, taken: Taken) -> None:
        """Count a delivery."""
        count = len(taken.positions)
        self.delivered += count
        if taken.redelivered:
            self.redelivered += count


class ReadyMessages:
    """A queue's ready messages, and its dead letters to be published."""

    def __init__(
        self,
        settings: QueueSettings,
        make_store: Callable[[int], MessageStore],
        kept: Mapping[int, MessageStore],
    ) -> None:
        """Begin with what is `kept`, by priority; `make_store` is asked for levels to come."""
        self.settings = settings
        self.ready = 0
        """Messages that wait (message-count of declare-ok and get-ok)."""
        self.ready_bytes = 0
        """Bytes of their bodies."""
        self.traffic = QueueTraffic()
        self.deleted = False
        self._make_store = make_store
        self._levels: dict[int, MessageLevel] = {}
        self._expiring = settings.ttl_ms is not None
        """A message may have an expiry."""
        self._limited = settings.is_limited
        self._dying: list[DeadLetter] = []
        for priority, store in kept.items():
            self._add_level(priority, store)
        self._plain = self._level_of(0)

    # Levels

    def _level_of(self, priority: int) -> MessageLevel:
        known = self._levels.get(priority)
        return known or self._add_level(priority, self._make_store(priority))

    def _add_level(self, priority: int, store: MessageStore) -> MessageLevel:
        kept = store.kept()
        level = MessageLevel(priority, store)
        self.ready += kept.ready
        self.ready_bytes += kept.ready_bytes
        self._expiring = self._expiring or kept.expiring
        self._levels[priority] = level
        self._levels = dict(sorted(self._levels.items(), reverse=True))
        return level

    def _take(self, count: int, size: int, now: float = 0.0) -> Taken | None:
        """Take the next messages of one level, up to an expired one, or None if none is loaded."""
        for level in self._levels.values():
            if level.fresh or level.returned:
                taken = level.take(count, size, now if self._expiring else 0.0)
                if taken is not None:
                    self.ready -= len(taken.positions)
                    self.ready_bytes -= sum(taken.sizes)
                    invariant(self.ready >= 0, "more messages are taken than were ready")
                return taken
        return None

    # Limits and lifetimes

    def _trim(self) -> None:
        """Let the head die while the queue is too long, of the highest priority first."""
        if not self._limited or self.settings.overflow is not Overflow.DROP_HEAD:
            return
        while self.ready and self.settings.exceeds(self.ready, self.ready_bytes):
            taken = self._take(1, ANY_NUMBER)
            if taken is None:
                return
            self._die(taken.level, taken.positions, DeathReason.MAXLEN, taken.messages)

    def _expire_head(self, now: float, *, just_before: bool = False) -> bool:
        """Let messages die at the head whose time is up; False: there are more of them.

        `just_before`: not those whose time is up this moment, which may still be handed out.
        """
        for _ in range(EXPIRED_BATCH_MAX):
            expires_at = self._head_expires_at()
            if expires_at is None or expires_at > now or (just_before and expires_at == now):
                return True
            taken = self._take(1, ANY_NUMBER)
            if taken is None:
                return True
            self._die(taken.level, taken.positions, DeathReason.EXPIRED, taken.messages)
        return False

    def _head_expires_at(self) -> float | None:
        for level in self._levels.values():
            if level.ready:
                head = None if level.head_is_claimed else level.head()
                return None if head is None else level.store.expires_at(head)
        return None

    def _end_claims(self) -> None:
        """Let messages expire again that were published to consumers with credit: none has any."""
        for level in self._levels.values():
            level.claimed = 0

    def purge(self) -> int:
        """Purge the ready messages; return their number."""
        count = self.ready
        for level in self._levels.values():
            level.clear()
        self.ready = self.ready_bytes = 0
        return count

    # Dead letters

    def take_dead_letters(self) -> list[DeadLetter]:
        """Take what died, as far as its messages are at hand, to be published elsewhere."""
        taken, self._dying = with_messages(self._dying)
        return taken

    def dead_letters_stored(self, letters: Iterable[DeadLetter]) -> None:
        """Settle dead letters that were published or that have no route."""
        if self.deleted:
            return
        for letter in letters:
            if letter.level is not None:
                letter.level.settle((letter.position,))

    def _die(
        self,
        level: MessageLevel,
        positions: Sequence[int],
        reason: DeathReason,
        messages: Sequence[Message | None] | None = None,
    ) -> None:
        self.traffic.discarded += len(positions)
        if not self.settings.dead_letters:
            level.settle(positions)
            return
        for position, message in zip(positions, messages or [None] * len(positions), strict=True):
            self._dying.append(DeadLetter(reason, level, position, message))
