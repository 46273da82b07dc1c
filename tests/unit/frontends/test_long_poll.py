"""What a request that waits looks at, how often, and what it lets go when its wait is over."""

import weakref
from collections.abc import Callable
from typing import Any

from headrace.frontends.long_poll import GATHER_SECONDS, LongPoll
from headrace.net.pending import Pending
from headrace.ports.deadlines import Deadlines
from headrace.testing.clock import SimClock


class Source:
    """Something that is watched."""

    def __init__(self) -> None:
        self.watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        self.watchers.append(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self.watchers.remove(callback)


class Wait:
    """A request's wait of two seconds, and what it has called."""

    def __init__(self, bytes_min: int = 1) -> None:
        self.clock = SimClock()
        self.pending = Pending()
        self.calls: list[str] = []
        self.poll = LongPoll(
            self.clock,
            Deadlines(self.clock),
            self.pending,
            seconds=2.0,
            bytes_min=bytes_min,
            look=lambda: self.calls.append("look"),
            expire=lambda: self.calls.append("expire"),
            on_end=lambda: self.calls.append("end"),
        )

    def watch(self, *sources: Any) -> None:
        self.poll.watch(sources)


def test_a_source_is_watched_once_however_often_that_is_asked() -> None:
    wait, source = Wait(), Source()
    wait.watch(source, source)
    wait.watch(source)
    assert len(source.watchers) == 1


def test_a_wait_that_is_over_watches_nothing_and_keeps_nothing_it_watched() -> None:
    wait, sources = Wait(), [Source(), Source()]
    wait.watch(*sources)
    kept = [weakref.ref(source) for source in sources]
    wait.poll.end()
    assert [source.watchers for source in sources] == [[], []]
    sources.clear()
    assert [found() for found in kept] == [None, None]


def test_the_end_is_told_once_and_what_was_called_is_let_go() -> None:
    wait = Wait()
    known = weakref.ref(wait)
    poll = wait.poll
    poll.end()
    poll.end()
    assert wait.calls == ["end"]
    del wait
    assert known() is None, "the wait knows what it called no longer"


def test_wakes_until_the_next_turn_are_one_look() -> None:
    wait = Wait()
    wait.poll.wake()
    wait.poll.wake()
    assert wait.calls == []
    wait.clock.turn()
    assert wait.calls == ["look"]
    wait.poll.wake()
    wait.clock.turn()
    assert wait.calls == ["look", "look"]


def test_who_wants_more_than_a_byte_is_looked_for_when_they_had_time_to_gather() -> None:
    wait = Wait(bytes_min=2)
    wait.poll.wake()
    wait.clock.turn()
    wait.clock.advance(GATHER_SECONDS - 0.0001)
    assert wait.calls == []
    wait.clock.advance(0.0002)
    assert wait.calls == ["look"]
    small = Wait(bytes_min=1)
    small.poll.wake()
    small.clock.turn()
    assert small.calls == ["look"]


def test_nobody_looks_for_a_wait_that_is_over_or_answered() -> None:
    over = Wait()
    over.poll.wake()
    over.poll.end()
    over.clock.turn()
    assert over.calls == ["end"]
    answered = Wait()
    answered.poll.wake()
    answered.pending.resolve(b"")
    answered.clock.turn()
    assert answered.calls == []


def test_the_time_is_over_once_and_not_before() -> None:
    wait = Wait()
    wait.clock.advance(1.99)
    assert wait.calls == []
    wait.clock.advance(0.02)
    assert wait.calls == ["end", "expire"]
    wait.poll.expire()
    assert wait.calls == ["end", "expire"]


def test_a_client_that_goes_ends_the_wait_and_expires_nothing() -> None:
    wait, source = Wait(), Source()
    wait.watch(source)
    wait.pending.abandon()
    assert wait.calls == ["end"]
    assert source.watchers == []
    wait.clock.advance(3.0)
    assert wait.calls == ["end"]
