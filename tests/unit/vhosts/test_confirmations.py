"""A change is answered once the brokers that follow have applied it."""

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, Offset
from headrace.vhosts.declarations.confirmations import WAIT_SECONDS, Confirmations
from tests.support.coordination.groups_kit import HandClock

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


class Place:
    """The confirmations of a coordinator, with two other brokers."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.followers = [ONE, TWO]
        self.waits = Confirmations(self.clock, lambda: self.followers)
        self.heard: list[ApiError | None] = []

    def wait(self, offset: int) -> None:
        self.waits.when_confirmed(Offset(offset), self.heard.append)

    def polled(self, broker: BrokerId, offset: int) -> None:
        self.waits.polled(broker, Offset(offset))


def test_change_waits_for_the_polls_of_all_brokers() -> None:
    here = Place()
    here.wait(3)
    here.polled(ONE, 3)
    here.polled(TWO, 2)
    assert not here.heard
    here.polled(TWO, 5)
    assert here.heard == [None]
    here.wait(3)
    assert here.heard == [None, None]


def test_late_broker_is_waited_for_once_until_it_polls() -> None:
    here = Place()
    here.polled(ONE, 9)
    here.wait(3)
    here.clock.advance(WAIT_SECONDS - 0.1)
    assert not here.heard
    here.clock.advance(0.2)
    assert here.heard == [None]
    assert here.waits.times_late == 1
    here.wait(4)
    assert here.heard == [None] * 2
    here.polled(TWO, 1)
    here.wait(5)
    assert len(here.heard) == 2
    here.polled(TWO, 5)
    assert len(here.heard) == 3


def test_broker_that_is_gone_holds_up_nothing() -> None:
    here = Place()
    here.polled(ONE, 3)
    here.wait(3)
    here.followers.remove(TWO)
    here.waits.look()
    assert here.heard == [None]


def test_broker_that_registers_later_is_waited_for_from_its_first_poll_on() -> None:
    here = Place()
    here.followers.append(THREE)
    here.polled(ONE, 3)
    here.polled(TWO, 3)
    here.wait(3)
    assert here.heard == [None]
    here.polled(THREE, 0)
    here.wait(3)
    assert here.heard == [None]


def test_waits_end_with_an_error_when_another_broker_leads() -> None:
    here = Place()
    here.wait(3)
    error = ApiError(ErrorCode.NOT_COORDINATOR)
    here.waits.close(error)
    assert here.heard == [error]
