"""Recalls of credit that an idle consumer of another broker's queue holds."""

from headrace.ports.callbacks import ignore_result
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.port import Consumer
from headrace.remote_queues.home.remote_consumers import IDLE_SECONDS
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import RemotePlace


def looks(here: RemotePlace, count: int = 4) -> None:
    """Let time pass until idle consumers are found."""
    for _ in range(count):
        here.wait(IDLE_SECONDS)
        here.settle()


def with_idle_consumer() -> RemotePlace:
    """A channel whose credit an idle consumer holds, while a queue of this broker has a message."""
    here = RemotePlace(durable=False)
    own = here.home.declare_queue("own", QueueFlags(durable=False), {}, None)
    here.channel.set_prefetch(1)
    here.consume("idle")
    here.home.consume(Consumer(own, here.channel, "busy"), ignore_result)
    assert here.home.publish(["own"], persistent("a"))
    here.homes.turns.run()
    return here


def test_credit_of_an_idle_consumer_is_recalled_for_a_queue_of_this_broker() -> None:
    here = with_idle_consumer()
    assert here.channel.held == {}
    looks(here)
    assert here.sent() == ["1:busy:a"]
    assert here.channel.unacked == 1


def test_recalled_credit_is_granted_again_when_there_is_room() -> None:
    here = with_idle_consumer()
    looks(here)
    assert here.sent() == ["1:busy:a"]
    here.channel.ack(1)
    here.published("b")
    looks(here)
    assert here.sent() == ["2:idle:b"]
    assert here.channel.unacked == 1


def test_credit_is_not_recalled_while_no_other_consumer_lacks_it() -> None:
    here = RemotePlace(durable=False)
    here.channel.set_prefetch(1)
    here.consume("idle")
    looks(here)
    assert here.network.counts["Recall"] == 0
    here.published("a")
    assert here.sent() == ["1:idle:a"]


def test_consumer_with_deliveries_under_way_is_not_idle() -> None:
    here = RemotePlace(durable=False)
    here.channel.set_prefetch(2)
    here.consume("a")
    here.consume("b")
    here.published(*map(str, range(40)))
    for _ in range(20):
        here.settle()
        here.channel.ack(0, multiple=True)
        here.wake(here.channel)
        here.wait(IDLE_SECONDS / 2)
    assert here.network.counts["Recall"] == 0


def test_recall_of_a_cancelled_consumer_changes_nothing() -> None:
    here = RemotePlace(durable=False)
    own = here.home.declare_queue("own", QueueFlags(durable=False), {}, None)
    here.channel.set_prefetch(1)
    idle = here.consume("idle")
    here.home.consume(Consumer(own, here.channel, "busy"), ignore_result)
    assert here.home.publish(["own"], persistent("a"))
    here.homes.turns.run()
    for _ in range(4):
        here.wait(IDLE_SECONDS)
    here.network.send()
    assert here.network.counts["Recall"] == 1
    here.cancel(idle)
    here.settle()
    here.homes.turns.run()
    assert here.channel.unacked == 1
    assert here.sent() == ["1:busy:a"]
