"""Queues that are closed or deleted: what their consumers, gets and settlements are left with."""

from collections.abc import Callable

import pytest

from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.queue_settings import QueueSettings
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.port import Consumer
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.durable import DurableQueue
from tests.support.queues.queues import settings

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
    here.queue.consume(consumer, here.now, ignore_result)
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


def test_no_log_is_created_for_a_deleted_queue() -> None:
    here = DurableQueue(settings(priority_max=3))
    here.queue.delete()
    here.queue.log_made()
    assert here.asked == []


def test_credit_for_a_consumer_of_a_deleted_queue_is_ignored() -> None:
    here = DurableQueue()
    consumer = Consumer(here.queue, here.channel, "c")
    here.queue.consume(consumer, here.now, ignore_result)
    here.queue.delete()
    here.queue.credit(consumer)
    assert here.queue.deliver(here.now) == {}


def test_settlements_after_a_deletion_are_ignored() -> None:
    here = DurableQueue()
    here.publish("a", "b")
    here.make_log()
    consumer = Consumer(here.queue, here.channel, "c")
    here.queue.consume(consumer, here.now, ignore_result)
    here.queue.deliver(here.now)
    assert here.queue.unacked == 2
    here.queue.delete()
    here.channel.ack(0, multiple=True)
    assert here.broken == []
    assert here.queue.unacked == 2


@pytest.mark.parametrize(
    ("queue_settings", "is_asked", "is_consumed", "delivers"),
    [
        (settings(), False, False, False),
        (settings(), True, False, True),
        (settings(), False, True, True),
        (settings(ttl_ms=1000), False, False, True),
        (settings(length_max=1), False, False, True),
        (settings(dead_letters=True), False, False, True),
    ],
    ids=["idle", "get", "consumer", "expiry", "limit", "dead letters"],
)
def test_a_queue_with_work_is_due_when_its_store_can_be_read(
    queue_settings: QueueSettings, is_asked: bool, is_consumed: bool, delivers: bool
) -> None:
    here = DurableQueue(queue_settings)
    here.publish("a")
    if is_asked:
        here.ask()
    if is_consumed:
        here.queue.consume(Consumer(here.queue, here.channel, "c"), here.now, ignore_result)
    due: list[object] = []
    here.queue._hooks = here.queue._hooks._replace(readable=due.append)
    here.queue.readable()
    assert due == ([here.queue] if delivers else [])
