"""A new leader delivers when the homes that its predecessor has named have attached."""

import pytest

from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import ignore_result
from headrace.queues.port import Consumer
from headrace.remote_queues.leader.awaited_homes import ATTACH_SECONDS_MAX
from headrace.remote_queues.leader.queue_sessions import QueueSessions
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.remote_pair import HOME

OTHER = BrokerId(9)


def consume_at_the_leader(here: MovingPlace) -> None:
    """Add a consumer of the leader's own client: the queue is delivered from now on."""
    queue = here.life.queue()
    here.life.host.consume(Consumer(queue, here.life.channel, "own", prefetch=9), ignore_result)
    here.life.end_pass()


def delivered_at_the_leader(here: MovingPlace) -> list[str]:
    return [each[2].body.decode() for each, _ in here.life.given]


def moved_with_a_held_message() -> MovingPlace:
    """A home that holds `a` of `a`, `b`, and a new leader to which it has not attached."""
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a", "b")
    assert here.sent() == ["1:c:a"]
    assert list(here.sessions.homes_of("/", "q")) == [HOME]
    here.move()
    return here


def test_queue_is_delivered_when_the_homes_have_attached() -> None:
    here = moved_with_a_held_message()
    here.sessions.wait_for("/", "q", [HOME], lambda: consume_at_the_leader(here))
    here.wait(ATTACH_SECONDS_MAX / 3)
    assert delivered_at_the_leader(here) == []
    here.begin()
    here.settle()
    assert delivered_at_the_leader(here) == ["b"]  # `a` is held by the home's channel
    here.channel.ack(1)
    here.settle()
    assert here.led == (0, 1)


def test_paused_queue_takes_held_positions_and_begins_then() -> None:
    here = moved_with_a_held_message()
    queue = here.life.queue()
    queue.pause()
    consume_at_the_leader(here)
    here.sessions.wait_for("/", "q", [HOME], queue.begin)
    here.wait(ATTACH_SECONDS_MAX / 3)
    assert delivered_at_the_leader(here) == []
    assert queue.paused
    here.begin()
    here.settle()
    assert delivered_at_the_leader(here) == ["b"]
    assert here.sent() == []
    assert here.led == (0, 2)


def test_home_that_does_not_attach_is_waited_for_one_second_at_most() -> None:
    here = moved_with_a_held_message()
    begun: list[int] = []
    here.sessions.wait_for("/", "q", [HOME, OTHER], lambda: begun.append(1))
    here.begin()
    here.settle()
    here.wait(ATTACH_SECONDS_MAX)
    assert begun == [1]
    here.wait(1)
    assert begun == [1]


@pytest.mark.parametrize("how", ["not registered", "suspected"])
def test_home_that_is_down_is_not_waited_for(how: str) -> None:
    here = moved_with_a_held_message()
    begun: list[int] = []
    here.sessions.wait_for("/", "q", [OTHER], lambda: begun.append(1))
    if how == "suspected":
        here.sessions.suspect({HOME: 1})
        assert begun == []
        here.sessions.suspect({OTHER: 1})
    else:
        here.sessions.keep({OTHER: 1})
        assert begun == []
        here.sessions.keep({HOME: 1})
    assert begun == [1]


def test_homes_that_have_attached_are_not_waited_for() -> None:
    here = moved_with_a_held_message()
    here.begin()
    here.settle()
    begun: list[int] = []
    here.sessions.wait_for("/", "q", [HOME], lambda: begun.append(1))
    here.sessions.wait_for("/", "q", [], lambda: begun.append(2))
    assert begun == [1, 2]


def test_leader_that_resigns_delivers_nothing() -> None:
    here = moved_with_a_held_message()
    begun: list[int] = []
    here.sessions.wait_for("/", "q", [HOME], lambda: begun.append(1))
    here.sessions.moved("/", "q")
    here.begin()
    here.wait(1)
    assert begun == []


def test_home_leaves_a_leader_that_has_resigned_and_keeps_its_consumers() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    here.sessions.moved("/", "q")
    here.settle()
    assert not here.remote.in_session
    assert here.cancelled == []
    assert not here.network.session.ended  # other queues go on
    assert here.led == (1, 0)
    here.begin()
    assert here.sent() == []
    assert here.led == (0, 1)


def test_deliveries_before_the_homes_attached_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueSessions, "wait_for", lambda self, vhost, queue, homes, done: done())
    with pytest.raises(AssertionError):
        test_queue_is_delivered_when_the_homes_have_attached()
