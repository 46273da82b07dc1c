"""Failed authentications: how long each waits, by address, and when that is forgotten."""

from headrace.security.sasl.failed_attempts import (
    ADDRESSES_MAX,
    FORGOTTEN_SECONDS,
    FailedAttempts,
)
from tests.support.coordination.groups_kit import HandClock


class Chance:
    """Draws the least, or the most."""

    def __init__(self) -> None:
        self.most = False

    def uuid(self) -> bytes:
        """Draw nothing."""
        raise NotImplementedError

    def uniform(self, low: float, high: float) -> float:
        """Draw."""
        return high if self.most else low


class Scene:
    """Failures on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.chance = Chance()
        self.attempts = FailedAttempts(self.clock.monotonic, self.chance)

    def fail(self, address: str = "10.0.0.1", first_ms: int = 100, most_ms: int = 10_000) -> float:
        """Fail once; returns the delay in seconds."""
        return self.attempts.delay_seconds(address, first_ms=first_ms, most_ms=most_ms)


def test_each_failure_of_an_address_waits_twice_as_long_up_to_the_bound() -> None:
    scene = Scene()
    delays = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [scene.fail() for _ in range(9)] == delays
    assert scene.fail("10.0.0.2") == 0.1
    for _ in range(100):
        assert scene.fail() == 10.0


def test_a_delay_is_up_to_a_fifth_longer_by_chance() -> None:
    scene = Scene()
    scene.chance.most = True
    assert scene.fail(first_ms=1000) == 1.2


def test_without_a_first_delay_there_is_none_and_a_bound_below_the_first_changes_nothing() -> None:
    scene = Scene()
    assert [scene.fail(first_ms=0) for _ in range(3)] == [0.0] * 3
    assert [scene.fail("10.0.0.2", 500, 0) for _ in range(3)] == [0.5] * 3


def test_an_address_that_has_not_failed_for_a_while_begins_anew() -> None:
    scene = Scene()
    scene.fail()
    scene.clock.advance(FORGOTTEN_SECONDS)
    assert scene.fail() == 0.2
    scene.clock.advance(FORGOTTEN_SECONDS + 1)
    assert scene.fail() == 0.1


def test_so_many_addresses_are_remembered_and_who_failed_longest_ago_is_not() -> None:
    scene = Scene()
    for number in range(ADDRESSES_MAX):
        scene.fail(str(number))
    scene.fail("0")
    scene.fail("one more")
    assert len(scene.attempts) == ADDRESSES_MAX
    assert scene.fail("0") == 0.4
    assert scene.fail("1") == 0.1
