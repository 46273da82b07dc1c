"""A queue on another broker whose leader changes: consumers stay, and hold what they held."""

from typing import TYPE_CHECKING, Any

import pytest

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.priority_level import Taken
from headrace.queues.port import Consumer, Disposition
from headrace.queues.refusals import RefusalKind, Refused
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.publish_batches import UNDECIDED_MAX
from headrace.remote_queues.home.remote_gets import GET_SECONDS_MAX
from headrace.remote_queues.home.remote_publishes import CROWDED_BYTES, RemotePublishes
from headrace.remote_queues.leader import leader_session
from headrace.remote_queues.messages import Hold
from headrace.testing.clock import SimClock
from tests.support.amqp.deliveries import getter
from tests.support.queues.lives import CONFIG
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import HOME

if TYPE_CHECKING:
    from headrace.queue_stores.log.queue_logs import Crowded


def test_held_messages_are_not_redelivered_by_the_next_leader() -> None:
    here = MovingPlace()
    here.consume(prefetch=2)
    here.publish("a", "b", "c")
    assert here.sent() == ["1:c:a", "2:c:b"]
    here.moved()
    assert here.sent() == []
    assert here.led == (1, 2)
    assert here.cancelled == []
    here.channel.ack(1)
    assert here.sent() == ["3:c:c*"]  # the kill left no record that it was not delivered
    here.channel.ack(0, multiple=True)
    here.settle()
    assert here.led == (0, 0)
    here.moved()
    assert here.sent() == []
    assert here.led == (0, 0)


def test_messages_before_a_held_one_are_redelivered_in_their_order() -> None:
    here = MovingPlace()
    gone = here.new_channel(2)
    other = here.consume("gone", gone, prefetch=2)
    here.publish("a", "b", "c")
    assert here.sent() == ["1:gone:a", "2:gone:b"]
    here.consume(prefetch=1)
    assert here.sent() == ["1:c:c"]
    here.cancel(other)
    gone.close()  # its requeues do not reach the leader
    here.moved()
    here.channel.ack(1)
    assert here.sent() == ["2:c:a*"]
    here.channel.ack(2)
    assert here.sent() == ["3:c:b*"]


def test_settlements_that_no_leader_has_taken_are_repeated() -> None:
    here = MovingPlace()
    here.consume(prefetch=3)
    here.publish("a", "b", "c")
    assert len(here.sent()) == 3
    here.channel.ack(1)
    here.channel.nack(2, requeue=False)
    here.network.lose_connection()
    here.network.session.end()
    here.channel.ack(3)  # without a session
    here.moved()
    assert here.sent() == []
    assert here.led == (0, 0)


def test_requeue_that_was_taken_is_not_repeated() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    here.channel.pause()
    here.consume("d", here.new_channel(2), prefetch=1)
    here.channel.nack(1)
    here.network.send()
    here.network.deliver("calls")  # its answer is lost
    here.run_leader()
    here.network.deliver("polls answered")
    here.network.lose_connection()
    here.moved()
    assert here.sent() == ["1:d:a*"]
    here.channel.resume()
    assert here.sent() == []
    assert here.led == (0, 1)


def test_deliveries_that_the_home_did_not_receive_are_made_again() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.settle()
    here.publish_soon("a")
    here.network.send()
    here.network.deliver("calls")
    for _ in range(5):
        here.life.end_pass()
        here.life.wait(0.1)
    assert here.led == (0, 1)
    here.network.lose_connection()
    here.moved()
    assert here.sent() == ["1:c:a*"]
    here.channel.ack(1)
    here.settle()
    assert here.led == (0, 0)


def test_deliveries_of_a_cancelled_consumer_stay_with_their_channel() -> None:
    here = MovingPlace()
    consumer = here.consume(prefetch=2)
    here.publish("a", "b")
    assert len(here.sent()) == 2
    here.cancel(consumer)
    here.moved()
    here.consume("d", here.new_channel(2))
    assert here.sent() == []
    here.channel.nack(1)
    assert here.sent() == ["1:d:a*"]
    here.channel.ack(2)
    here.settle()
    assert here.led == (0, 1)


def test_message_of_a_get_is_held_by_the_next_leader() -> None:
    here = MovingPlace()
    here.publish("a", "b")
    here.settle()
    given: list[object] = []
    here.queue.get(getter(here.queue, here.channel, given.append, 0.0), 0.0)
    here.settle()
    assert len(given) == 1
    here.moved()
    here.settle()
    assert here.led == (1, 1)
    here.channel.ack(1)
    here.settle()
    assert here.led == (1, 0)


def test_positions_of_priorities_are_held() -> None:
    here = MovingPlace({"x-max-priority": 2})
    here.consume(prefetch=2)
    here.publish_soon("low", priority=0)
    here.publish_soon("high", priority=2)
    assert len(here.sent()) == 2
    here.publish_soon("next", priority=1)
    here.settle()
    here.moved()
    assert here.sent() == []
    assert here.led == (1, 2)
    here.channel.ack(0, multiple=True)
    assert here.sent() == ["3:c:next*"]


def test_undecided_publishes_without_a_producer_id_are_unstored_when_the_leader_changes() -> None:
    here = MovingPlace(producer_id=-1)
    assert here.publish("a") == [True]
    undecided = here.publish_soon("b", "c")
    here.network.send()
    here.moved()
    assert undecided == [{2, 3}]


def stored_once(here: MovingPlace, *bodies: str) -> None:
    """Assert that the queue has messages of these bodies, each once."""
    here.consume()
    assert [each.split(":")[2].rstrip("*") for each in here.sent()] == list(bodies)


@pytest.mark.parametrize("appended", [False, True])
def test_undecided_publishes_are_stored_once_when_the_leader_changes(appended: bool) -> None:
    here = MovingPlace()
    assert here.publish("a") == [True]
    undecided = here.publish_soon("b", "c")
    here.network.send()
    if appended:
        here.network.deliver("calls")
        for _ in range(5):
            here.run_leader()  # stored: the home is not told
    here.network.lose_connection()
    here.moved()
    here.settle()
    assert [*map(bool, undecided)] == [False]
    assert here.publish("d") == [True]
    stored_once(here, "a", "b", "c", "d")


def test_publishes_without_a_leader_wait_for_the_next() -> None:
    here = MovingPlace()
    here.publish("a")
    here.move()
    waiting = here.publish_soon("b")
    assert waiting == []
    here.begin()
    here.settle()
    assert [*map(bool, waiting)] == [False]
    stored_once(here, "a", "b")


def test_publishers_are_paused_while_much_waits_for_a_leader() -> None:
    here = MovingPlace()
    logs = here.life.logs
    here.publish("a")
    here.move()
    resumed: list[int] = []
    body, count = "x" * 700, 0
    while here.remote._publishes.waiting_bytes < 2 * CROWDED_BYTES:
        assert bool(logs.crowded) is (here.remote._publishes.waiting_bytes > CROWDED_BYTES)
        here.publish_soon(body)
        count += 1
    assert logs.hold_up(lambda: resumed.append(1)) == 1
    assert logs.crowded == []
    here.begin()
    assert resumed == []  # five batches are under way, others still wait
    here.settle()
    assert resumed == [1]
    stored_once(here, "a", *[body] * count)


def test_end_of_a_session_resumes_publishers_of_a_queue_that_does_not_move() -> None:
    crowded: list[Crowded] = []
    link = LeaderLink("/", "q", "queue 'q'")
    publishes = RemotePublishes(link, SimClock(), crowded)
    while not crowded:
        publishes.add(persistent("x" * 1000))
    resumed: list[int] = []
    publishes.held_up.append(lambda: resumed.append(1))
    publishes.lost(keep=False)
    assert resumed == [1]
    assert not publishes.is_crowded


def test_no_more_than_five_batches_are_undecided() -> None:
    here = MovingPlace()
    here.publish("a")
    told = []
    for number in range(8):
        told.append(here.publish_soon(f"{number}"))
        here.network.send()  # so that the next one is another batch
    (sequence,) = here.remote._publishes._sequences
    assert sequence.sent == UNDECIDED_MAX
    here.settle()
    assert all(each and not each[0] for each in told)
    stored_once(here, "a", *map(str, range(8)))


def test_batch_that_the_leader_refuses_begins_a_new_epoch_of_the_producer() -> None:
    here = MovingPlace()
    assert here.publish("a") == [True]
    large = "x" * (CONFIG.segment_bytes * 2)
    first = here.publish_soon(large)
    here.network.send()
    second = here.publish_soon("b")
    here.settle()
    assert (first, second) == ([{2}], [{2, 3}])  # the log refuses what is behind a gap
    assert here.publish("c", "d") == [True, True]
    stored_once(here, "a", "c", "d")


def test_consumer_that_waits_for_its_answer_is_added_by_the_next_leader() -> None:
    here = MovingPlace()
    told: list[object] = []
    consumer = here.consume("other")
    here.cancel(consumer)
    here.queue.consume(Consumer(here.queue, here.channel, "c"), 0.0, told.append)
    here.moved()
    here.settle()
    assert told == [None]
    here.publish("a")
    assert here.sent() == ["1:c:a"]


@pytest.mark.parametrize("ends", [False, True])
def test_calls_wait_while_held_positions_are_read(
    monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    here = MovingPlace()
    here.consume(prefetch=2)
    here.publish("a", "b", "c")
    assert len(here.sent()) == 2
    with monkeypatch.context() as patch:
        patch.setattr(
            HostedQueue, "take_below", lambda self, *_: Taken(self._levels[0], (), (), (), False)
        )
        here.moved()
        assert here.sent() == []
        session = here.network.sessions.of(HOME, here.network.name, first=False)
        assert session is not None
        assert session._holding is not None
        (request,) = session._requests
        assert len(request.calls) == 2  # the consumer, and that this is all
        if ends:
            here.network.sessions.close()
            here.life.wait(0.1)
            assert here.led == (3, 0)
            return
    here.channel.ack(1)
    assert here.sent() == ["3:c:c*"]
    assert here.led == (0, 2)


def test_attach_without_positions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(leader_session._HANDLERS, Hold, lambda *_: None)
    with pytest.raises(AssertionError, match="3, 0"):
        test_held_messages_are_not_redelivered_by_the_next_leader()


def test_settlement_of_an_ended_consumer_is_dropped() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    here.channel.ack(1)
    here.queue.settle(Disposition.ACKNOWLEDGED, (1 << 80,))
    here.settle()
    assert here.led == (0, 0)


def test_publishes_wait_for_the_next_leader_once_a_queue_is_not_led() -> None:
    here = MovingPlace(producer_id=7)
    here.publish("a")
    here.sessions.moved("/", "q")
    here.life.host.unhost(here.life.queue())
    told = here.publish_soon("b")
    here.settle()
    assert told == [], "neither stored nor refused"
    here.begin()
    here.settle()
    assert told == [], "the broker does not lead the queue"
    here.moved()
    here.settle()
    assert [len(unstored) for unstored in told] == [0]
    assert here.led == (2, 0)


def ask_for_message(here: MovingPlace) -> list[Any]:
    """Do a basic.get without waiting; return the list that gets its answer."""
    answers: list[Any] = []
    here.remote.get(getter(here.remote, here.channel, answers.append, here.now), here.now)
    return answers


def test_get_waits_for_the_next_leader() -> None:
    here = MovingPlace()
    here.publish("a")
    here.move()
    answers = ask_for_message(here)
    here.wait(GET_SECONDS_MAX / 2)
    assert answers == []
    here.begin()
    here.settle()
    assert [found[2].body for found in answers] == [b"a"]


def test_get_without_a_leader_is_refused_after_a_while() -> None:
    here = MovingPlace()
    here.publish("a")
    here.move()
    answers = ask_for_message(here)
    here.wait(2 * GET_SECONDS_MAX)
    (refused,) = answers
    assert isinstance(refused, Refused)
    assert refused.kind is RefusalKind.NOT_FOUND
    assert "failed to perform operation on queue 'q' in vhost '/' due to timeout" in str(refused)
