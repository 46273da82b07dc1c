"""Batches of a home's publishes: full queues, priorities, streams, and the bytes a log takes."""

from typing import TYPE_CHECKING

import pytest

from headrace.queue_stores.queue_settings import PublishedRun
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.model.declarations import QueueFlags
from tests.support.queues.lives import CONFIG
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.remote_pair import RemotePlace

if TYPE_CHECKING:
    from headrace.remote_queues.home.publish_batches import PublishSequence

FULL = {"x-max-length": 3, "x-overflow": "reject-publish"}


def bodies(here: RemotePlace) -> list[str]:
    """Consume all messages; return their bodies."""
    here.consume()
    return [each.split(":")[2].rstrip("*") for each in here.sent()]


def test_full_queue_takes_the_first_messages_of_a_batch() -> None:
    here = MovingPlace(FULL)
    told = here.publish_soon("a", "b", "c", "d", "e")
    here.settle()
    assert told == [{4, 5}]
    assert here.network.counts["Room"] == 1
    assert bodies(here) == ["a", "b", "c"]


def test_batches_behind_a_full_one_are_sent_again() -> None:
    here = MovingPlace(FULL)
    here.settle()
    told = [here.publish_soon("a", "b")]
    for some in (("c", "d"), ("e",)):
        here.network.send()
        told.append(here.publish_soon(*some))
    here.settle()
    assert told == [[range(0)], [{4}], [{4, 5}]]
    assert here.network.counts["Room"] == 2
    assert bodies(here) == ["a", "b", "c"]
    here.channel.ack(0, multiple=True)
    assert here.publish("f") == [True]


def test_small_batch_behind_a_full_one_is_stored() -> None:
    here = MovingPlace({"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    here.settle()
    told = [here.publish_soon("x" * 8)]
    here.network.send()
    told.append(here.publish_soon("y" * 8))
    here.network.send()
    told.append(here.publish_soon("z"))
    here.settle()
    assert told == [[range(0)], [{2}], [{2}]]
    assert bodies(here) == ["x" * 8, "z"]


@pytest.mark.parametrize(
    ("arguments", "seconds", "batches"),
    [
        ({"x-message-ttl": 60_000}, 0.005, 1),
        ({"x-message-ttl": 60_000}, 0.02, 2),
        ({}, 0.02, 1),
        ({}, 1.1, 2),
    ],
)
def test_messages_that_expire_share_a_batch_if_published_at_nearly_the_same_time(
    arguments: dict[str, object], seconds: float, batches: int
) -> None:
    here = MovingPlace(arguments)
    told = [here.publish_soon("a")]
    here.wait(seconds)
    told.append(here.publish_soon("b"))
    here.settle()
    assert told == [[range(0)], [range(0)]]
    assert here.network.counts["Publish"] == batches
    assert bodies(here) == ["a", "b"]


def send_and_move(here: MovingPlace, *, appended: bool) -> None:
    """Send the calls, have the former leader append them or not, and change the leader."""
    here.network.send()
    if appended:
        here.network.deliver("calls")
        for _ in range(5):
            here.run_leader()
    here.network.lose_connection()
    here.moved()
    here.settle()


@pytest.mark.parametrize("appended", [False, True])
def test_batch_of_a_full_queue_is_stored_once_when_the_leader_changes(appended: bool) -> None:
    here = MovingPlace(FULL)
    told = here.publish_soon("a", "b", "c", "d")
    while not here.network.counts["Room"]:
        here.network.send()
        here.network.deliver_all()
        here.run_leader()
    here.network.deliver("polls answered")
    send_and_move(here, appended=appended)
    assert told == [{4}]
    assert bodies(here) == ["a", "b", "c"]


def test_refused_messages_of_a_batch_are_dead_lettered() -> None:
    arguments = {
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    here = MovingPlace(arguments)
    letters = here.life.host.declare_queue("dead", QueueFlags(durable=False), {}, None)
    assert here.publish("a", "b", "c") == [True, False, False]
    assert letters.ready == 2


def sequences(here: MovingPlace) -> "list[PublishSequence]":
    return here.remote._publishes._sequences


@pytest.mark.parametrize("kind", [{"x-max-priority": 2}, {}])
@pytest.mark.parametrize("appended", [False, True])
def test_batches_of_priorities_are_stored_once_when_the_leader_changes(
    kind: dict[str, object], appended: bool
) -> None:
    here = MovingPlace(kind)
    here.settle()
    assert len(sequences(here)) == (3 if kind else 1)
    told = [here.publish_soon(f"{number}", priority=number % 3) for number in range(8)]
    send_and_move(here, appended=appended)
    assert told == [[range(0)]] * 8
    assert sorted(bodies(here)) == [f"{number}" for number in range(8)]


def test_home_makes_no_batch_that_the_log_does_not_take() -> None:
    here = MovingPlace()
    body = "x" * (CONFIG.segment_bytes // 4)
    assert all(here.publish(*[body] * 20))  # before the leader has told it
    assert all(here.publish(*[body] * 20))
    assert here.led == (40, 0)


def test_publish_waits_until_the_leader_has_opened_the_queue() -> None:
    here = MovingPlace()
    here.publish_soon("a")
    assert here.remote._publishes.waiting_bytes > 0
    here.settle()
    assert here.remote._publishes.waiting_bytes == 0
    assert here.led == (1, 0)


def test_publish_waits_until_the_log_of_its_leader_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = MovingPlace()
    here.settle()
    here.move()
    queue = here.life.queue()
    with monkeypatch.context() as loading:
        for store in queue.late_stores:
            loading.setattr(store, "is_loading", lambda: True)
        here.begin()
        told = here.publish_soon("a")
        here.settle()
        assert (told, here.led) == ([], (0, 0))
    queue.end_opening()
    here.settle()
    assert (told, here.led) == ([range(0)], (1, 0))


def test_batch_of_several_priorities_is_not_taken_as_one() -> None:
    here = MovingPlace({"x-max-priority": 2})
    here.settle()
    queue = here.life.queue()
    assert isinstance(queue, HostedQueue)
    low, high = (PublishedRun([], priority) for priority in (0, 2))
    assert queue.takes_batch([low, low])
    assert not queue.takes_batch([low, high])
