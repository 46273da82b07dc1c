"""The end of a chaos run waits for copies that come slowly, and not for those that do not come."""

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException

from tests.chaos.load import until_copied

COUNTS = {0: 40, 1: 3}


def told(steps: Iterator[Mapping[int, int]], **limits: float) -> str | None:
    return until_copied(COUNTS, lambda: next(steps), **limits)


def slow(until: int) -> Iterator[Mapping[int, int]]:
    """One record more each time it is asked for."""
    for at in range(until):
        yield {0: at, 1: 3}
    while True:
        yield {0: until, 1: 3}


def test_copies_are_waited_for_as_long_as_they_come() -> None:
    assert told(slow(40), seconds_max=60.0, still_seconds_max=2.0) is None


def test_copies_that_stand_still_are_told_with_their_places() -> None:
    problem = told(slow(2), seconds_max=60.0, still_seconds_max=0.3)
    assert problem is not None
    assert "0: 2 of 40, 1: 3 of 3" in problem


def test_copies_that_come_too_slowly_are_given_up() -> None:
    problem = told(slow(40), seconds_max=0.3, still_seconds_max=60.0)
    assert problem is not None
    assert "of 40" in problem


def test_a_group_that_cannot_be_asked_is_asked_again_and_the_reason_told_in_the_end() -> None:
    asked = 0

    def copied() -> Mapping[int, int]:
        nonlocal asked
        asked += 1
        raise KafkaException("moves")

    problem = until_copied(COUNTS, copied, seconds_max=60.0, still_seconds_max=0.3)
    assert problem is not None
    assert "moves" in problem
    assert asked > 1
