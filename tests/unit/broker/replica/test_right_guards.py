"""The guard of deliveries: whether another leader may act by the time they leave."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_right import GRANT_SECONDS, WAIT_SECONDS, Ping, PingAnswer
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.clock import SimClock

PARTITION = TopicPartition("t", 0)
MEMBER = BrokerId(2)


class Kit:
    """The rights of a broker to one partition, of which `MEMBER` is the other replica."""

    def __init__(self, *, alone: bool = False) -> None:
        self.clock = SimClock()
        self.lease = 1
        self.right = True
        rights: Any = SimpleNamespace(
            led={"key": (PARTITION, {MEMBER})}, held=lambda _: self.right, alone=lambda _: alone
        )
        self.held = HeldRights(rights, lambda: self.lease, self.clock, self.clock.monotonic)
        self.held.look(PARTITION)
        self.held.listener = self
        self.told: list[bool] = []
        """At each change of the right, whether the guard of before still held."""

    def right_changed(self, partition: TopicPartition, held: bool | None) -> None:
        """Implement `RightsListener`."""
        self.told.append(self.held.guard()())

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which no timer runs; the right ends."""
        self.held.close()
        self.clock.advance(seconds)
        self.right = False

    def granted(self) -> None:
        """Note a grant of this moment."""
        until = self.clock.monotonic() + GRANT_SECONDS
        self.held.granted(MEMBER, until, first=False)


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [(0.0, True), (GRANT_SECONDS, True), (WAIT_SECONDS, False), (10.0, False)],
)
def test_guard_holds_until_another_leader_may_begin(seconds: float, holds: bool) -> None:
    here = Kit()
    here.granted()
    guard = here.held.guard()
    here.clock.advance(seconds)
    assert guard() is holds


def test_guard_of_a_former_moment_does_not_hold_by_a_later_grant() -> None:
    here = Kit()
    here.granted()
    guard = here.held.guard()
    here.clock.advance(10.0)
    here.granted()
    assert not guard()
    assert here.held.guard()()


@pytest.mark.parametrize(("seconds", "holds"), [(GRANT_SECONDS, True), (10.0, False)])
@pytest.mark.parametrize("answered", [False, True])
def test_change_of_a_right_is_told_with_the_guard_of_before(
    seconds: float, holds: bool, answered: bool
) -> None:
    here = Kit()
    here.granted()
    until = here.clock.monotonic() + GRANT_SECONDS
    here.stand_still(seconds)
    if answered:
        here.held.granted(MEMBER, until, first=False)
    else:
        here.held.check()
    assert here.told == [holds]
    assert here.held.guard()(), "nothing is delivered by a right of that moment"


def test_end_of_a_lease_is_told_with_the_guard_of_before() -> None:
    here = Kit(alone=True)
    here.held.look(PARTITION)
    here.right = False
    here.lease += 1
    here.held.check()
    assert here.told == [False]


def test_guard_of_a_leader_that_is_alone_ends_with_its_lease() -> None:
    here = Kit(alone=True)
    here.held.look(PARTITION)
    guard = here.held.guard()
    assert guard()
    here.lease += 1
    assert not guard()


def test_partitions_of_an_answer_are_looked_at_in_its_order() -> None:
    broker: Any = SimpleNamespace(
        broker_id=BrokerId(1), partitions={}, image=SimpleNamespace(leader_of=lambda _: MEMBER)
    )
    rights = LeadingRights(broker, lambda _: True, lambda _: True, SimClock().monotonic)
    epochs = {(b"%016d" % number, 0): LeaderEpoch(1) for number in (5, 2, 7, 0, 3, 6, 1, 4)}
    for topic_id, index in epochs:
        partition = TopicPartition(topic_id.decode(), index)
        rights.ordered(partition, topic_id, LeaderEpoch(1), (BrokerId(1), MEMBER))
    looked: list[str] = []
    watch: Any = SimpleNamespace(
        granted=lambda *_, **__: None, look=lambda partition: looked.append(partition.topic)
    )
    rights.watch = watch
    rights.answered(MEMBER, 0.0, Ping(1, 0, {}), PingAnswer(1, 1, epochs))
    assert looked == [topic_id.decode() for topic_id, _ in epochs]
