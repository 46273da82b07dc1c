"""Positions of a former leader that the new one has not committed yet are held, too."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from headrace.queues.engine.priority_level import Taken
from headrace.remote_queues.leader.held_positions import LOOKS_MAX, HeldPositions
from tests.support.queues.queues import settings


class LateQueue:
    """A queue with a message of 7 bytes at each of some positions, which is committed later."""

    def __init__(self, *positions: int) -> None:
        self.settings = settings()
        self.ready = sorted(positions)
        self.committed = 0
        """Position below which messages are committed."""
        self.unacked = 0

    def take_below(self, priority: int, below: int) -> Taken | None:
        """Take the committed messages below a position."""
        taken = [each for each in self.ready if each < min(below, self.committed)]
        if not taken:
            return None
        del self.ready[: len(taken)]
        level = cast("Any", SimpleNamespace(priority=0))
        return Taken(level, taken, (), [7] * len(taken), redelivered=True)

    def lacks_below(self, priority: int, below: int) -> bool:
        """Tell whether a message is not committed."""
        return self.committed < below

    def end_hold(self, held: int, others: Iterable[tuple[object, int, int]]) -> None:
        """Count the held messages, and take the others back."""
        self.unacked += held
        self.ready = sorted([*self.ready, *(position for _, position, _ in others)])


def held_by(queue: LateQueue, *positions: int) -> HeldPositions:
    return HeldPositions(cast("Any", queue), cast("Any", None), positions)


def test_position_is_held_once_its_message_is_committed() -> None:
    queue = LateQueue(3)
    holding = held_by(queue, 3)
    assert not holding.go_on()
    queue.committed = 4
    assert holding.go_on()
    assert holding.held == {3: 7}
    assert queue.unacked == 1


def test_message_that_is_not_committed_is_not_waited_for_long() -> None:
    holding = held_by(LateQueue(3), 3)
    assert [holding.go_on() for _ in range(LOOKS_MAX + 1)] == [False] * LOOKS_MAX + [True]
    assert holding.held == {}


def test_home_takes_its_positions_while_another_one_waits() -> None:
    queue = LateQueue(1, 2, 3, 4)
    queue.committed = 4
    first, second = held_by(queue, 1, 4), held_by(queue, 2, 3)
    assert not first.go_on()
    assert second.go_on()
    assert second.held == {2: 7, 3: 7}
    queue.committed = 5
    assert first.go_on()
    assert first.held == {1: 7, 4: 7}
    assert (queue.unacked, queue.ready) == (4, [])
