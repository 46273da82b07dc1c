"""A queue's ready messages, in levels by priority; dropped when expired or over a limit."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.model.invariant import invariant
from headrace.queue_stores.message_store import MessageStore
from headrace.queue_stores.queue_settings import Overflow, QueueSettings
from headrace.queues.engine.dead_letters import DeadLetter, DeathReason, with_messages
from headrace.queues.engine.priority_level import MessageLevel, Taken
from headrace.queues.port import ANY_NUMBER
from headrace.queues.queue_traffic import QueueTraffic
from headrace.wire.amqp.content import Message

EXPIRED_BATCH_MAX = 1000
"""The most messages that one call expires; `next_deadline` stays in the past if more remain."""
TRIMMED_AT_ONCE = 1000
"""Messages that one call drops over a limit at most, which takes some milliseconds."""
DEAD_LETTER_COST = 10
"""As many messages fewer are dropped at once where each is dead-lettered, which takes 40 µs."""


class ReadyMessages:
    """A queue's ready messages, and its dead letters to be published."""

    paused = False
    """Whether nothing is delivered, expired, dropped or dead-lettered: see `HostedQueue.pause`."""
    _trimmed_max = TRIMMED_AT_ONCE
    """Messages that the next call drops over a limit, at most."""

    def __init__(
        self,
        settings: QueueSettings,
        make_store: Callable[[int], MessageStore],
        kept: Mapping[int, MessageStore],
    ) -> None:
        """Begin with the stores of `kept`, by priority; `make_store` makes those of others."""
        self.settings = settings
        self.ready = 0
        """Number of ready messages (message-count of declare-ok and get-ok)."""
        self.ready_bytes = 0
        """Bytes of the bodies of ready messages."""
        self.traffic = QueueTraffic()
        self.deleted = False
        self._make_store = make_store
        self._levels: dict[int, MessageLevel] = {}
        self._expiring = settings.ttl_ms is not None
        """Whether a message may have an expiry."""
        self._limited = settings.is_limited
        self._dying: list[DeadLetter] = []
        self._rejected: set[tuple[int, int]] = set()
        """Rejected messages that are not settled: priority, and position in its store."""
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
        """Dead-letter or drop messages at the head while the queue is too long (drop-head).

        The highest priority goes first. Of very many messages, as after a change of the limit, some
        are left for `_trim_later`.
        """
        settings = self.settings
        if not self._limited or settings.overflow is not Overflow.DROP_HEAD:
            return
        if self.ready and settings.exceeds(self.ready, self.ready_bytes) and not self.paused:
            taken = self._take(1, ANY_NUMBER)
            if taken is None:
                return
            self._die(taken.level, taken.positions, DeathReason.MAXLEN, taken.messages)
            if settings.exceeds(self.ready, self.ready_bytes):
                self._trim_many()

    def _trim_many(self) -> None:
        settings = self.settings
        left = self._trimmed_max // (DEAD_LETTER_COST if settings.dead_letters else 1) - 1
        count = 2
        while self.ready and settings.exceeds(self.ready, self.ready_bytes):
            if left <= 0:
                self._trim_later()
                return
            taken = self._take(*settings.excess(self.ready, self.ready_bytes, min(count, left)))
            if taken is None:
                return
            self._die(taken.level, taken.positions, DeathReason.MAXLEN, taken.messages)
            left -= len(taken.positions)
            count *= 2

    def _trim_later(self) -> None:
        """Have `deliver` called soon, as messages over a limit are left."""

    def _expire_head(self, now: float, *, just_before: bool = False) -> bool:
        """Dead-letter or drop expired messages at the head; return False if more are left.

        `just_before` leaves messages that expire exactly at `now`: they may still be delivered.
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
        """Let claimed messages expire again: no consumer has credit any more."""
        for level in self._levels.values():
            level.claimed = 0

    def purge(self) -> int:
        """Settle all ready messages of the queue; return their number."""
        count = self.ready
        for level in self._levels.values():
            level.clear()
        self.ready = self.ready_bytes = 0
        return count

    # Dead letters

    def take_dead_letters(self) -> list[DeadLetter]:
        """Return and remove the dead letters whose messages are loaded, to be published."""
        taken, self._dying = with_messages(self._dying)
        return taken

    def dead_letters_stored(self, letters: Iterable[DeadLetter]) -> None:
        """Settle dead letters that were published or that have no route."""
        if self.deleted:
            return
        for letter in letters:
            if letter.level is not None:
                letter.level.settle((letter.position,))
                self._rejected.discard((letter.level.priority, letter.position))

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
        if reason is DeathReason.REJECTED:
            self._rejected.update((level.priority, position) for position in positions)
        for position, message in zip(positions, messages or [None] * len(positions), strict=True):
            self._dying.append(DeadLetter(reason, level, position, message))
