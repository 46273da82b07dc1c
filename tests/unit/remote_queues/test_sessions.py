"""Sessions of homes with a leader: they begin once, end for good, and bound what they buffer."""

from typing import Any

import pytest

from headrace.model.nouns import BrokerId
from headrace.queues.port import Consumer
from headrace.queues.refusals import RefusalKind, Refused
from headrace.remote_queues import events
from headrace.remote_queues.home import home_session
from headrace.remote_queues.home.remote_consumer import WINDOW
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.leader.queue_sessions import LOST_SECONDS, POLL_SECONDS, SessionName
from tests.support.amqp.deliveries import getter
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import EPOCH, HOME, RemotePlace


def names(*numbers: int) -> list[SessionName]:
    return [SessionName(EPOCH, number) for number in numbers]


def test_session_begins_with_its_first_request_only() -> None:
    here = RemotePlace(durable=False)
    sessions = here.sessions
    one, two = names(1, 2)
    assert sessions.of(HOME, one, first=False) is None
    begun = sessions.of(HOME, one, first=True)
    assert begun is not None
    assert sessions.of(HOME, one, first=False) is begun
    later = sessions.of(HOME, two, first=True)
    assert later is not None
    assert begun.ended
    assert sessions.of(HOME, one, first=True) is None
    sessions.keep({HOME: EPOCH})
    assert sessions.of(HOME, two, first=False) is later
    sessions.keep({HOME: EPOCH + 1})
    assert later.ended
    assert sessions.of(HOME, two, first=True) is None
    assert sessions.of(HOME, SessionName(EPOCH + 1, 1), first=True) is not None


def test_session_of_a_home_that_is_suspected_to_be_dead_ends() -> None:
    here = RemotePlace(durable=False)
    here.consume(prefetch=1)
    here.published("a", "b")
    here.sessions.suspect({HOME: EPOCH + 1, BrokerId(HOME + 1): EPOCH})
    assert here.leader.queues["q"].unacked == 1
    here.sessions.suspect({HOME: EPOCH})
    info = here.leader.queues["q"]
    assert (info.ready, info.unacked, len(info.consumers)) == (2, 0, 0)


def test_session_without_a_poll_ends_and_its_deliveries_are_requeued() -> None:
    here = RemotePlace(durable=False)
    consumer = here.consume(prefetch=1)
    here.published("a", "b")
    assert here.sent() == ["1:c:a"]
    here.network.lose_connection()
    for _ in range(5):  # a new connection each time, before the session ends
        here.world.clock.advance(LOST_SECONDS)
        here.settle()
        here.network.lose_connection()
    assert len(here.leader.queues["q"].consumers) == 1
    here.world.clock.advance(POLL_SECONDS + LOST_SECONDS)
    info = here.leader.queues["q"]
    assert (info.ready, info.unacked, len(info.consumers)) == (2, 0, 0)
    here.settle()
    assert here.network.session.ended
    assert here.cancelled == ["c"]
    assert consumer.gone
    assert here.channel.unacked == 1  # its delivery, until the client settles it, without effect
    here.channel.ack(1)
    here.begin()
    here.consume("d", here.new_channel(2))
    assert here.sent() == ["1:d:a*", "2:d:b"]


def test_lost_session_answers_all_that_waits() -> None:
    here = RemotePlace(durable=False)
    here.consume()
    told: list[Any] = []
    assert here.host.publish(["q"], persistent("a"))
    here.queue.when_stored(told.append)
    here.queue.ask_info(told.append)
    here.host.purge(here.queue, told.append)
    here.queue.consume(Consumer(here.queue, here.channel, "d"), 0.0, told.append)
    here.network.session.end()
    unstored, refused, info, purged = told
    assert unstored == {1}
    assert info.consumers == 0
    assert refused.kind is purged.kind is RefusalKind.NOT_FOUND
    assert here.cancelled == ["c"]
    assert here.channel.unacked == 0


def test_queue_without_a_session_refuses_all() -> None:
    here = RemotePlace(durable=False)
    here.network.session.end()
    assert not here.queue.publish(persistent("a"), 0.0)
    with pytest.raises(Refused):
        here.consume()
    with pytest.raises(Refused):
        here.get()
    assert here.host.publish(["q"], persistent("a")) is False
    assert here.counts().ready == 0
    here.queue.when_stored(lambda unstored: None)


def test_queue_that_this_broker_does_not_lead_is_refused_by_it() -> None:
    here = RemotePlace(durable=False)
    here.delete()
    here.begin()
    assert here.publish("a") == [False]
    with pytest.raises(Refused):
        here.consume()
    with pytest.raises(Refused):
        here.get()
    with pytest.raises(Refused):
        here.purge()
    assert here.counts().ready == 0


def test_counts_known_last_are_reported_after_a_second_without_an_answer() -> None:
    here = RemotePlace(durable=False)
    here.published("a")
    assert here.counts().ready == 1
    told: list[Any] = []
    here.queue.ask_info(told.append)
    here.world.clock.advance(0.9)
    assert told == []
    here.world.clock.advance(0.2)
    assert [info.ready for info in told] == [1]
    here.settle()
    assert len(told) == 1


def test_counts_that_the_leader_does_not_give_are_not_known() -> None:
    here = RemotePlace(durable=False)
    here.published("a")
    told: list[Any] = []
    queue = here.queue
    assert isinstance(queue, RemoteQueue)
    queue.ask_counts(told.append)
    here.settle()
    assert [info.ready for info in told] == [1]
    queue.ask_counts(told.append)
    here.world.clock.advance(1.1)
    here.settle()
    assert told[1:] == [None]
    queue.ask_counts(told.append)
    here.network.session.end()
    queue.ask_counts(told.append)
    assert told[1:] == [None, None, None]


def test_consumer_without_a_limit_is_granted_a_window() -> None:
    here = RemotePlace(durable=False)
    here.consume(no_ack=True)
    here.published(*map(str, range(3 * WINDOW)))
    assert len(here.sent()) == 3 * WINDOW
    assert here.channel.unacked == 0


def test_full_events_pause_deliveries_until_the_home_receives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "EVENTS_BYTES_MAX", 2000)
    here = RemotePlace(durable=False)
    here.consume()
    here.settle()
    queue = here.leader.queues["q"]
    for number in range(30):
        here.leader.publish(["q"], persistent(f"{number}"))
        here._hosts.turns.run()  # without the network
    assert 0 < queue.unacked < 30
    assert len(here.sent()) == 30


def test_publishes_are_refused_while_too_many_wait_for_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home_session, "CALLS_BYTES_MAX", 500)
    here = RemotePlace(durable=False)
    here.settle()
    taken = [here.host.publish(["q"], persistent("a")) for _ in range(10)]
    assert taken.count(True) > 1
    assert not taken[-1]
    here.settle()
    assert here.publish("b") == [True]


def test_cancelled_consumer_returns_the_room_of_its_channel() -> None:
    here = RemotePlace(durable=False)
    here.channel.set_prefetch(2)
    consumer = here.consume()
    assert here.channel.unacked > 0
    here.cancel(consumer)
    assert here.channel.unacked == 0
    here.consume("d")
    here.published("a", "b", "c")
    assert here.sent() == ["1:d:a", "2:d:b"]


def test_get_for_a_closed_channel_is_requeued() -> None:
    here = RemotePlace(durable=False)
    here.published("a")
    channel = here.new_channel(2)
    given: list[Any] = []
    here.queue.get(getter(here.queue, channel, given.append, 0.0), 0.0)
    channel.close()
    here.settle()
    assert given == []
    assert here.counts().ready == 1


def test_poll_without_events_is_answered_after_a_while() -> None:
    here = RemotePlace(durable=False)
    here.settle()
    name = here.network.name
    told: list[Any] = []
    here.sessions.poll(HOME, name, events.Poll(1, False, 1000), told.append)
    here.world.clock.advance(POLL_SECONDS)
    assert told == [(1, [])]
    here.sessions.poll(HOME, name, events.Poll(1, False, 1000), told.append)
    here.sessions.close()
    assert len(told) == 2
    here.sessions.poll(HOME, name, events.Poll(1, False, 1000), told.append)
    assert told[2] is None
