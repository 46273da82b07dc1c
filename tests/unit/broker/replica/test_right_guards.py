"""The guard of deliveries: whether another leader may act by the time they leave."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_right import GRANT_SECONDS, WAIT_SECONDS
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.clock import SimClock

PARTITION = TopicPartition("t", 0)
MEMBER = BrokerId(2)


class Kit:
    """The rights of a broker to one partition, of which `MEMBER` is the other replica."""

    def __init__(self, *, alone: bool = False) -> None:
        self.clock = SimClock()
        self.lease = 1
        rights: Any = SimpleNamespace(
            led={"key": (PARTITION, {MEMBER})}, held=lambda _: True, alone=lambda _: alone
        )
        self.held = HeldRights(rights, lambda: self.lease, self.clock, self.clock.monotonic)

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


def test_guard_of_a_leader_that_is_alone_ends_with_its_lease() -> None:
    here = Kit(alone=True)
    here.held.look(PARTITION)
    guard = here.held.guard()
    assert guard()
    here.lease += 1
    assert not guard()
