"""Queues that are closed or deleted: what their consumers, gets and settlements are left with."""

from collections.abc import Callable

import pytest

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.port import Consumer
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.durable import DurableQueue

BROKEN = Refused(RefusalKind.BROKEN, "queue", "it is broken")


def closed(queue: HostedQueue) -> None:
    queue.abandon(BROKEN)


def deleted(queue: HostedQueue) -> None:
    queue.delete()


@pytest.mark.parametrize("end", [closed, deleted])
def test_a_parked_consumer_of_an_ended_queue_is_parked_no_longer(
    end: Callable[[HostedQueue], None],
) -> None:
    here = DurableQueue()
    consumer = Consumer(here.queue, here.channel, "c")
    here.queue.consume(consumer, here.now)
    here.channel.park(consumer)
    end(here.queue)
    assert not here.channel.parked
    assert not consumer.parked


@pytest.mark.parametrize(("end", "answer"), [(closed, "it is broken"), (deleted, None)])
def test_waiting_gets_of_an_ended_queue_are_answered(
    end: Callable[[HostedQueue], None], answer: str | None
) -> None:
    here = DurableQueue()
    here.publish("a")
    here.ask()
    here.ask()
    assert here.got == []
    end(here.queue)
    assert here.bodies() == [answer, answer]


def test_credit_for_a_consumer_of_a_deleted_queue_is_ignored() -> None:
    here = DurableQueue()
    consumer = Consumer(here.queue, here.channel, "c")
    here.queue.consume(consumer, here.now)
    here.queue.delete()
    here.queue.credit(consumer)
    assert here.queue.deliver(here.now) == {}


def test_settlements_after_a_deletion_are_ignored() -> None:
    here = DurableQueue()
    here.publish("a", "b")
    here.make_log()
    consumer = Consumer(here.queue, here.channel, "c")
    here.queue.consume(consumer, here.now)
    here.queue.deliver(here.now)
    assert here.queue.unacked == 2
    here.queue.delete()
    here.channel.ack(0, multiple=True)
    assert here.broken == []
    assert here.queue.unacked == 2
