"""Deadlines: moved, cancelled, added for answers; one timer for all."""

import gc
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from headrace.net.pending import Pending
from headrace.ports.deadlines import TICK_SECONDS, Deadlines
from tests.support.coordination.groups_kit import HandClock, HandTimer


class CountingClock(HandClock):
    """Counts how often it was asked to call back."""

    asked = 0

    def call_later(self, seconds: float, callback: Callable[[], None]) -> HandTimer:
        self.asked += 1
        return super().call_later(seconds, callback)


class Room:
    """Deadlines by a clock that the test moves, and what they did."""

    def __init__(self) -> None:
        self.clock = CountingClock()
        self.began = self.clock.now
        self.deadlines = Deadlines(self.clock)
        self.reached: list[tuple[str, float]] = []

    def reach(self, name: str) -> None:
        """Note that the deadline of that name was reached, and when."""
        self.reached.append((name, self.clock.now - self.began))

    def names(self) -> list[str]:
        """What was reached, in its order."""
        return [name for name, _ in self.reached]

    def pending(self, name: str, seconds: float) -> Pending:
        """An answer that waits for so long, and resolves itself when its time is over."""
        pending = Pending()

        def expire() -> None:
            self.reach(name)
            pending.resolve(b"")

        self.deadlines.add(pending, seconds, expire)
        return pending


def test_a_deadline_moved_away_is_not_reached_early() -> None:
    clock = HandClock()
    deadlines = Deadlines(clock)
    reached: list[str] = []
    one = deadlines.deadline(lambda: reached.append("one"))
    two = deadlines.deadline(lambda: reached.append("two"))
    one.set(5)
    two.set(6)
    clock.advance(4)
    one.set(5)
    clock.advance(3)
    assert reached == ["two"]
    clock.advance(3)
    assert reached == ["two", "one"]
    assert clock.timers == 0


def test_a_deadline_moved_nearer_is_reached_once() -> None:
    clock = HandClock()
    deadlines = Deadlines(clock)
    reached: list[float] = []
    one = deadlines.deadline(lambda: reached.append(clock.now - 1000))
    one.set(50)
    one.set(5)
    clock.advance(100)
    assert reached == [5.0]


def test_a_cancelled_deadline_is_not_reached_and_can_be_set_again() -> None:
    clock = HandClock()
    deadlines = Deadlines(clock)
    reached: list[int] = []
    one = deadlines.deadline(lambda: reached.append(1))
    one.set(5)
    one.cancel()
    clock.advance(4)
    one.set(2)
    clock.advance(1.5)
    assert reached == []
    clock.advance(1)
    assert reached == [1]


def test_an_ended_deadline_is_not_reached_and_keeps_nothing_until_it_was_due() -> None:
    room = Room()
    late = weakref.WeakMethod(room.reach)
    ended = room.deadlines.deadline(partial(room.reach, "ended"))
    ended.set(1000)
    ended.end()
    room.clock.advance(2000)
    assert room.reached == []
    deadlines, room.deadlines = room.deadlines, Deadlines(room.clock)
    ended.set(1)
    room.clock.advance(2)
    assert room.reached == []
    del room
    gc.collect()
    assert late() is None
    assert len(deadlines) == 0


def test_closed_deadlines_reach_nothing() -> None:
    clock = HandClock()
    deadlines = Deadlines(clock)
    one = deadlines.deadline(lambda: pytest.fail("closed"))
    one.set(5)
    deadlines.close()
    one.set(1)
    clock.advance(10)
    assert clock.timers == 0


def test_an_answer_that_is_there_in_time_does_not_expire_and_is_forgotten() -> None:
    room = Room()
    room.pending("sooner", 4)
    early = room.pending("early", 5)
    late = room.pending("late", 5)
    early.resolve(b"")
    assert len(room.deadlines) == 3
    room.clock.advance(TICK_SECONDS)
    assert len(room.deadlines) == 2
    late.resolve(b"")
    room.clock.advance(10)
    assert room.names() == ["sooner"]
    assert len(room.deadlines) == 0


@pytest.mark.parametrize("seconds", [0.01, TICK_SECONDS / 2, 1.0, 30.0])
def test_an_answer_expires_when_its_time_is_over(seconds: float) -> None:
    room = Room()
    room.pending("last", 100)
    room.pending("one", seconds)
    room.pending("later", seconds + 1)
    room.clock.advance(seconds + 0.5)
    assert room.names() == ["one"]
    assert room.reached[0][1] == pytest.approx(seconds, abs=0.002)
    room.clock.advance(1)
    assert room.names() == ["one", "later"]
    room.clock.advance(100)
    assert room.clock.timers == 0


def test_what_waits_for_long_wakes_nobody_until_then() -> None:
    room = Room()
    room.pending("one", 30)
    room.clock.advance(1)
    asked = room.clock.asked
    room.clock.advance(28)
    assert room.clock.asked == asked
    room.pending("two", 60)
    assert room.clock.asked == asked + 1
    room.clock.advance(1)
    assert room.names() == ["one"]


def test_who_is_settled_by_one_that_expires_with_it_does_not_expire() -> None:
    room = Room()
    second = Pending()
    first = Pending()
    room.deadlines.add(first, 1, lambda: second.resolve(b""))
    room.deadlines.add(second, 1, lambda: pytest.fail("settled"))
    room.clock.advance(2)
    assert second.done


def test_a_deadline_cancelled_by_one_reached_with_it_is_not_reached() -> None:
    room = Room()
    second = room.deadlines.deadline(lambda: pytest.fail("cancelled"))
    first = room.deadlines.deadline(second.cancel)
    first.set(1)
    second.set(1)
    room.clock.advance(2)


def test_of_many_answers_those_that_came_in_time_are_not_kept_to_their_deadline() -> None:
    room = Room()
    room.deadlines.deadline(lambda: room.reach("deadline")).set(3)
    room.pending("first", 2)
    many = [room.pending("many", 30) for _ in range(200)]
    room.clock.advance(TICK_SECONDS)
    assert len(room.deadlines) == 202
    for pending in many[:150]:
        pending.resolve(b"")
    room.clock.advance(2)
    assert room.names() == ["first"]
    assert len(room.deadlines) == 51
    room.clock.advance(30)
    assert room.names() == ["first", "deadline", *["many"] * 50]
    assert len(room.deadlines) == 0


def test_closed_deadlines_expire_no_answer() -> None:
    room = Room()
    room.pending("one", 1)
    room.deadlines.close()
    room.pending("two", 1)
    room.clock.advance(5)
    assert room.reached == []
    assert room.clock.timers == 0


def test_a_deadline_that_was_reached_is_not_armed() -> None:
    room = Room()
    deadline = room.deadlines.deadline(lambda: room.reach("it"))
    deadline.set(5)
    room.clock.advance(6)
    assert room.names() == ["it"]
    assert deadline.at is None


def test_a_deadline_moved_nearer_again_and_again_is_kept_once() -> None:
    room = Room()
    deadline = room.deadlines.deadline(lambda: room.reach("it"))
    for _ in range(10):
        deadline.set(50)
        deadline.set(5)
        room.clock.advance(5)
    deadline.set(500)
    room.clock.advance(60)
    assert room.names() == ["it"] * 10
    assert len(room.deadlines) == 1


def test_answers_in_time_are_forgotten_at_each_look_and_not_only_at_the_first() -> None:
    room = Room()
    for _ in range(5):
        many = [room.pending("many", 300) for _ in range(200)]
        room.clock.advance(TICK_SECONDS)
        for pending in many[:190]:
            pending.resolve(b"")
        room.pending("next", 0.01)
        room.clock.advance(1)
    assert len(room.deadlines) == 50


def test_deadlines_reached_do_not_keep_answers_in_time_from_being_forgotten() -> None:
    room = Room()
    for _ in range(300):
        room.deadlines.deadline(lambda: None).set(1)
    room.clock.advance(2)
    many = [room.pending("many", 300) for _ in range(200)]
    room.clock.advance(TICK_SECONDS)
    for pending in many[:190]:
        pending.resolve(b"")
    room.pending("next", 0.01)
    room.clock.advance(1)
    assert len(room.deadlines) == 10


def test_closed_deadlines_keep_nothing() -> None:
    room = Room()
    room.pending("one", 1)
    room.deadlines.deadline(lambda: None).set(1)
    room.deadlines.close()
    assert len(room.deadlines) == 0


def test_an_answer_asked_for_while_another_expires_is_looked_at_a_tick_later() -> None:
    room = Room()
    first = Pending()

    def expire() -> None:
        first.resolve(b"")
        room.pending("second", 30)
        room.pending("third", 30)

    room.deadlines.add(first, 1, expire)
    room.clock.advance(1 + TICK_SECONDS / 2)
    asked = room.clock.asked
    room.clock.advance(20)
    assert room.clock.asked == asked + 1
