"""A leader alone in the ISR acknowledges while the session of its registration surely lives."""

from math import inf

from headrace.cluster.membership.lease import Lease
from headrace.testing.clock import SimClock


class Heard:
    """A session of six seconds, last heard of at `at`."""

    def __init__(self, at: float = 0.0, session_seconds: float = 6.0) -> None:
        self.session = 1
        self.at = at
        self.session_seconds = session_seconds

    def last_heard(self) -> float:
        return self.at


def test_the_lease_is_two_thirds_of_the_session_from_what_was_heard_last() -> None:
    clock, heard = SimClock(), Heard()
    lease = Lease(heard, lambda: 1, clock.monotonic, clock, lambda: None)
    clock.advance(3.9)
    assert lease.holds()
    clock.advance(0.1)
    assert not lease.holds()
    heard.at = 4.0
    assert lease.holds()


def test_who_was_told_that_it_does_not_hold_is_told_once_when_it_does() -> None:
    clock, heard = SimClock(), Heard()
    renewed: list[float] = []
    lease = Lease(
        heard, lambda: 1, clock.monotonic, clock, lambda: renewed.append(clock.monotonic())
    )
    clock.advance(5)
    assert not lease.holds()
    assert not lease.holds()
    clock.advance(5)
    assert renewed == []
    heard.at = clock.monotonic()
    clock.advance(1)
    assert len(renewed) == 1
    assert lease.holds()
    clock.advance(10)
    assert not lease.holds()
    heard.at = clock.monotonic()
    clock.advance(1)
    assert len(renewed) == 2


def test_a_session_that_nobody_can_end_holds_for_ever() -> None:
    clock = SimClock()
    clock.advance(1e9)
    assert Lease(Heard(inf, inf), lambda: 1, clock.monotonic, clock, lambda: None).holds()


def test_new_session_does_not_count_before_the_broker_is_registered_in_it() -> None:
    clock, heard, registered = SimClock(), Heard(), [1]
    renewed: list[float] = []
    lease = Lease(
        heard,
        lambda: registered[0],
        clock.monotonic,
        clock,
        lambda: renewed.append(clock.monotonic()),
    )
    clock.advance(6)
    heard.session, heard.at = 2, 6.0
    assert not lease.holds()
    clock.advance(1)
    assert not lease.holds()
    assert renewed == []
    registered[0] = 2
    clock.advance(0.2)
    assert lease.holds()
    assert len(renewed) == 1
