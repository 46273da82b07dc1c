"""Replays take turns: while several load, the loop has as long for everything else."""

from collections.abc import Callable

from headrace.shards.replay_turns import ReplayTurns
from headrace.testing.clock import SimClock, SimTimer


class BusyClock(SimClock):
    """A clock of a loop on which work takes time; tells for how long it rested."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    def work(self, seconds: float) -> None:
        """Work for so long: nothing else happens meanwhile."""
        self._now += seconds

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SimTimer:
        self.rests.append(seconds)
        return super().call_later(seconds, callback)


def test_slices_of_several_replays_are_done_one_at_a_time_with_rests_between() -> None:
    clock = BusyClock()
    turns = ReplayTurns(clock)
    done: list[str] = []

    def replay(name: str, slices: int) -> None:
        def step() -> None:
            nonlocal slices
            clock.work(0.25)
            done.append(name)
            slices -= 1
            if slices:
                turns.ask(step)

        turns.ask(step)

    replay("a", 3)
    replay("b", 2)
    replay("c", 1)
    assert done == [], "nothing is done before whoever begins a replay has its turn"
    clock.turn()
    assert done == ["a"]
    clock.advance(10)
    assert done == ["a", "b", "c", "a", "b", "a"]
    assert clock.rests == [0, 0.25, 0.25, 0.25, 0.25, 0.25]
    turns.ask(lambda: done.append("later"))
    clock.turn()
    assert done[-1] == "later"


def test_a_slice_that_meets_a_bug_does_not_end_the_others_replays() -> None:
    clock = SimClock()
    turns = ReplayTurns(clock)
    done: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    turns.ask(fail)
    turns.ask(lambda: done.append("next"))
    try:
        clock.turn()
    except ZeroDivisionError:
        clock.turn()
    assert done == ["next"]


def test_a_replay_that_goes_on_has_the_next_turn_before_those_that_wait() -> None:
    clock = BusyClock()
    turns = ReplayTurns(clock)
    done: list[str] = []

    def first() -> None:
        clock.work(0.25)
        done.append("first")
        turns.go_on(lambda: done.append("first again"))

    turns.ask(first)
    turns.ask(lambda: done.append("other"))
    clock.turn()
    assert done == ["first"], "it rests all the same"
    clock.advance(1)
    assert done == ["first", "first again", "other"]
    turns.go_on(lambda: done.append("later"))
    clock.turn()
    assert done[-1] == "later"
