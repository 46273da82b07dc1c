"""The right to act as the only leader of a partition: in-sync followers grant it (ADR 78).

A leader needs it where two leaders do harm though the former one commits nothing, as of a queue,
which must not be delivered twice.

    leader ── ping: number of the last change it knows ──► other member of its maximal ISR
           ◄── answer: later changes of leader epochs ────
    it has the right while each of them answered a ping *sent* less than GRANT_SECONDS ago, and none
    knows a later epoch

    ordered to lead ──┬─ the leader of the epoch before held the right and gave it up ─► begun
                      └─ WAIT_SECONDS later: no former right can last any more ────────► begun

These classes only compute. Times are seconds on the boot-time clock of the broker that calls.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.nouns import NO_EPOCH, BrokerId, LeaderEpoch

GRANT_SECONDS = 0.6
"""Seconds for which an answered ping grants the right, from its sending."""
WAIT_SECONDS = 1.05 * GRANT_SECONDS
"""Seconds that a new leader waits if the former one does not answer: its clock may be slower."""

PING_SECONDS = 0.15
"""Seconds between two pings to a broker."""
SILENT_SECONDS = 2.0
"""Seconds without an answer to a ping after which a member leaves the ISR."""

PartitionKey = tuple[bytes, int]
"""Topic id and number of a partition. By id, as a topic of the same name begins with epoch 0."""


class Ping(NamedTuple):
    """A leader's ping to another broker."""

    incarnation: int
    """Incarnation of the broker whose changes are known; -1: none."""
    number: int
    """Number of the last change that is known."""
    fences: Mapping[PartitionKey, LeaderEpoch] = {}
    """Epochs in which the sender leads: an earlier right of the receiver is to be given up."""


class PingAnswer(NamedTuple):
    """The changes of leader epochs that a broker knows and a ping did not name."""

    incarnation: int
    """Increases with each start of the broker: its broker epoch."""
    number: int
    epochs: Mapping[PartitionKey, LeaderEpoch]
    given_up: Mapping[PartitionKey, frozenset[BrokerId]] = {}
    """The fenced partitions whose right the broker held in the epoch before and has given up.

    Each with the brokers whose channels held deliveries of it.
    """


class KnownEpochs:
    """The leader epochs that a broker has learned from orders since it started, as changes."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        """Increases with each start of the broker; -1: not known yet."""
        self._number = 0
        self._changes: dict[PartitionKey, tuple[int, LeaderEpoch]] = {}
        """The last change of each partition with its number, in the order of numbers."""

    def of(self, key: PartitionKey) -> LeaderEpoch:
        """Return the latest known epoch of a partition, or -1."""
        return self._changes.get(key, (0, NO_EPOCH))[1]

    def learn(self, key: PartitionKey, epoch: LeaderEpoch) -> None:
        """Note an epoch; an earlier one than the known epoch is ignored."""
        if epoch > self.of(key):
            self._number += 1
            self._changes.pop(key, None)
            self._changes[key] = (self._number, epoch)

    def forget(self, key: PartitionKey) -> None:
        """Forget a partition whose replica here is deleted; it is not granted any more."""
        self._changes.pop(key, None)

    def answer(self, ping: Ping) -> PingAnswer:
        """Return the changes after those that a ping names; all, if it is for another process."""
        known = ping.number if ping.incarnation == self.incarnation else 0
        later: dict[PartitionKey, LeaderEpoch] = {}
        for key, (number, epoch) in reversed(self._changes.items()):
            if number <= known:
                break
            later[key] = epoch
        return PingAnswer(self.incarnation, self._number, later)


@dataclass(slots=True)
class _Member:
    """The last answers of a broker."""

    incarnation: int
    number: int = 0
    sent_at: float = float("-inf")
    """The latest time at which an answered ping was sent."""
    epochs: dict[PartitionKey, LeaderEpoch] = field(default_factory=dict)


class Grants:
    """The answers of other brokers to this broker's pings."""

    def __init__(self) -> None:
        self._members: dict[BrokerId, _Member] = {}

    def ping(self, broker: BrokerId) -> Ping:
        """Return the next ping to a broker."""
        known = self._members.get(broker)
        return Ping(-1, 0) if known is None else Ping(known.incarnation, known.number)

    def answered(self, broker: BrokerId, sent_at: float, answer: PingAnswer) -> bool:
        """Note a broker's answer to a ping of `sent_at`. Answers may come in any order.

        Return whether it is the first answer of a process: what a former one named is forgotten.
        """
        known = self._members.get(broker)
        first = known is None or answer.incarnation > known.incarnation
        if known is None or first:
            # The process that knew the former epochs is gone: the new one names them again.
            known = self._members[broker] = _Member(answer.incarnation)
        elif answer.incarnation < known.incarnation:
            return False
        known.sent_at = max(known.sent_at, sent_at)
        known.number = max(known.number, answer.number)
        for key, epoch in answer.epochs.items():
            known.epochs[key] = max(epoch, known.epochs.get(key, NO_EPOCH))
        return first

    def until(self, broker: BrokerId) -> float:
        """Return when the grants of a broker end, unless it answers another ping."""
        known = self._members.get(broker)
        return float("-inf") if known is None else known.sent_at + GRANT_SECONDS

    def forget(self, broker: BrokerId) -> None:
        """Forget a broker whose registration has ended."""
        self._members.pop(broker, None)

    def given(
        self, brokers: Iterable[BrokerId], key: PartitionKey, epoch: LeaderEpoch, now: float
    ) -> bool:
        """Return whether all `brokers` grant this broker to lead a partition in `epoch` now."""
        for broker in brokers:
            known = self._members.get(broker)
            if known is None or now >= self.until(broker):
                return False
            named = known.epochs.get(key, NO_EPOCH)
            if named == NO_EPOCH or named > epoch:
                return False
        return True


class Leading(NamedTuple):
    """A partition that this broker is ordered to lead, with its replicas."""

    key: PartitionKey
    epoch: LeaderEpoch
    others: frozenset[BrokerId]
    """The other members of the maximal ISR."""
    in_sync: int
    """Number of members of the committed ISR, this broker included."""
    replicas: int
    """Number of assigned replicas."""


class Leaderships:
    """The partitions that this broker is ordered to lead: whether it has begun, and has the right.

    `lease` returns whether the store's session, in which this broker was ordered to lead, certainly
    lives. It is asked only for a leader that is alone in the committed ISR: others are elected in
    its place by an operator alone, once its session has ended.
    """

    def __init__(self, grants: Grants, lease: Callable[[PartitionKey], bool]) -> None:
        self._grants = grants
        self._lease = lease
        self._begins: dict[PartitionKey, tuple[LeaderEpoch, float]] = {}
        """Epoch of each led partition, and the time at which it begins by itself."""
        self._given_up: dict[PartitionKey, LeaderEpoch] = {}
        """The last epoch in which this broker had begun, of partitions that others lead now."""

    def lead(self, key: PartitionKey, epoch: LeaderEpoch, now: float) -> None:
        """Note an order to lead, received at `now`.

        If this broker led in the epoch before and had begun, it goes on.
        """
        led, begins = self._begins.get(key, (NO_EPOCH, now))
        if epoch <= led:
            return
        goes_on = led == epoch - 1 and now >= begins
        self._begins[key] = (epoch, now if goes_on else now + WAIT_SECONDS)

    def end(self, key: PartitionKey, epoch: LeaderEpoch, now: float) -> None:
        """Stop leading: another broker is ordered to lead in `epoch`."""
        led, begins = self._begins.get(key, (NO_EPOCH, now))
        if led == NO_EPOCH or epoch <= led:
            return
        del self._begins[key]
        if now >= begins:
            self._given_up[key] = led

    def forget(self, key: PartitionKey) -> None:
        """Forget a partition whose replica here is stopped or deleted."""
        self._begins.pop(key, None)
        self._given_up.pop(key, None)

    def gave_up(self, key: PartitionKey, epoch: LeaderEpoch) -> bool:
        """Return whether this broker held the right until `epoch` and has given it up.

        The answer to the leader of `epoch`, after `end`.
        """
        return self._given_up.get(key, NO_EPOCH) == epoch - 1 != NO_EPOCH

    def former_gave_up(self, key: PartitionKey, epoch: LeaderEpoch, now: float) -> None:
        """Begin: the leader of the epoch before `epoch` held the right and gave it up."""
        led, begins = self._begins.get(key, (NO_EPOCH, now))
        if led == epoch and now < begins:
            self._begins[key] = (epoch, now)

    def leads_before(self, key: PartitionKey, epoch: LeaderEpoch) -> bool:
        """Return whether this broker is ordered to lead in an epoch before `epoch`."""
        return NO_EPOCH < self._begins.get(key, (NO_EPOCH, 0.0))[0] < epoch

    def begins_at(self, key: PartitionKey) -> float:
        """Return when this broker begins to lead a partition by itself; infinite: it does not."""
        return self._begins.get(key, (NO_EPOCH, float("inf")))[1]

    def begun(self, key: PartitionKey, epoch: LeaderEpoch, now: float) -> bool:
        """Return whether no broker can hold the right by an epoch before `epoch`."""
        led, begins = self._begins.get(key, (NO_EPOCH, now))
        return led == epoch and now >= begins

    def holds(self, leading: Leading, now: float) -> bool:
        """Return whether this broker may act as the only leader of a partition now."""
        key, epoch = leading.key, leading.epoch
        if not self.begun(key, epoch, now):
            return False
        if not self._grants.given(leading.others, key, epoch, now):
            return False
        return leading.in_sync > 1 or leading.replicas == 1 or self._lease(key)
