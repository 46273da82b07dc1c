"""A home closes queues of other brokers that nothing uses, and opens them again."""

import pytest

from headrace.model.nouns import BrokerId
from headrace.queues.port import Consumer
from headrace.queues.queue_names import QueueName
from headrace.remote_queues.home import queues_elsewhere
from tests.support.queues.remote_pair import HOME
from tests.unit.remote_queues.test_queues_elsewhere import Elsewhere, Q

SECONDS = 2.0


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """A queue that is closed after two seconds without use."""
    monkeypatch.setattr(queues_elsewhere, "IDLE_SECONDS", SECONDS)
    return Elsewhere()


def closed_after_a_while(here: Elsewhere) -> list[QueueName]:
    """Let more time pass than a queue is kept without use; return those closed since."""
    closed: list[QueueName] = []
    here.elsewhere._closed = closed.append
    for _ in range(8):
        here.settle()
    return closed


def known_at_leader(here: Elsewhere) -> int:
    """Return how many queues the leader has opened for the home."""
    session = here.sessions.of(HOME, here.network.name, first=False)
    assert session is not None
    return len(session._queues)


def cancelled(here: Elsewhere, consumer: Consumer) -> None:
    here.remote.cancel(consumer, here.now)
    here.home.cancel(consumer)


def test_queue_stays_open_while_it_is_used(here: Elsewhere) -> None:
    consumer = here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    assert closed_after_a_while(here) == []
    cancelled(here, consumer)
    assert closed_after_a_while(here) == [], "a channel holds a delivery"
    here.channel.ack(1)
    assert closed_after_a_while(here) == [Q]
    assert here.led == (0, 0)


def test_queue_that_is_published_to_now_and_then_stays_open(here: Elsewhere) -> None:
    for number in range(8):
        here.publish(str(number))
        assert here.elsewhere.queues == [here.remote]
    assert closed_after_a_while(here) == [Q]


def test_queue_that_was_idle_is_opened_again(here: Elsewhere) -> None:
    here.publish("a")
    assert known_at_leader(here) == 1
    assert closed_after_a_while(here) == [Q]
    assert (here.elsewhere.queues, known_at_leader(here)) == ([], 0)
    led = here.life.queue()
    here.remote = here.elsewhere.open("/", led.declared, led.title)
    here.home.targets["q"] = here.remote
    here.give_id()
    assert here.publish("b") == [True]
    here.consume()
    assert here.sent() == ["1:c:a", "2:c:b"]
    assert known_at_leader(here) == 1


def test_queue_without_a_leader_is_not_forgotten_with_publishes(here: Elsewhere) -> None:
    here.settle()
    here.present = None
    here.move()
    told = here.publish_soon("a")
    assert closed_after_a_while(here) == []
    here.present = BrokerId(2)
    here.elsewhere.look(Q)
    here.settle()
    assert [*map(bool, told)] == [False]
