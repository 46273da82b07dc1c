"""Lifetimes of messages and queues while the broker writes: they do not pass."""

import pytest

from headrace.queue_stores.queue_settings import Published
from tests.support.amqp.deliveries import ChannelKit
from tests.support.queues.durable import DurableQueue
from tests.support.queues.log import LogQueue, message
from tests.support.queues.queues import QueueKit, settings

TTL_MS = [0, 1, 30]
SLOW_FLUSH_SECONDS = 0.2
"""Longer than each of these."""


def bodies(here: LogQueue) -> list[str]:
    """Return the bodies of the messages delivered now."""
    return [delivery[2].body.decode() for delivery in here.deliveries()]


def slowly_stored(here: LogQueue) -> None:
    """Write what was published, with a flush that takes its time."""
    here.store.write()
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    here.settle()


@pytest.mark.parametrize("ttl_ms", TTL_MS)
@pytest.mark.parametrize("by_queue", [False, True])
@pytest.mark.parametrize("cache_bytes_max", [0, 1 << 20])
def test_consumer_with_credit_gets_messages_whose_ttl_is_below_a_flush(
    ttl_ms: int, by_queue: bool, cache_bytes_max: int
) -> None:
    queue_settings = settings(ttl_ms=ttl_ms if by_queue else None, dead_letters=True)
    here = LogQueue(queue_settings=queue_settings, cache_bytes_max=cache_bytes_max)
    here.consume()
    here.publish("a", "b", expiration_ms=None if by_queue else ttl_ms)
    slowly_stored(here)
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    assert bodies(here) == ["a", "b"]
    assert here.q.take_dead_letters() == []


def test_only_as_many_messages_of_ttl_0_are_delivered_as_had_credit() -> None:
    here = LogQueue()
    here.consume(prefetch=2)
    here.publish("a", "b", "c", expiration_ms=0)
    slowly_stored(here)
    assert bodies(here) == ["a", "b"]
    assert here.q.ready == 0


def test_consumers_share_the_messages_that_each_had_credit_for() -> None:
    here = LogQueue()
    here.consume(prefetch=1)
    here.channel = ChannelKit(2)
    here.consume(prefetch=1)
    here.publish("a", "b", "c", expiration_ms=0)
    slowly_stored(here)
    assert sorted(bodies(here)) == ["a", "b"]


@pytest.mark.parametrize("ttl_ms", [0, 30])
def test_message_expires_as_always_where_its_consumer_left_meanwhile(ttl_ms: int) -> None:
    here = LogQueue(queue_settings=settings(dead_letters=True))
    consumer = here.consume()
    here.publish("a", expiration_ms=ttl_ms)
    here.store.write()
    here.q.cancel(consumer, here.now)
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    here.settle()
    assert bodies(here) == []
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    here.q.expire(here.now)
    assert [letter.reason.value for letter in here.q.take_dead_letters()] == ["expired"]


def test_ttl_of_0_without_a_consumer_is_not_delivered_to_one_that_comes_later() -> None:
    here = LogQueue()
    here.publish("a", expiration_ms=0)
    here.store.write()
    here.world.clock.advance(0.001)
    here.consume()
    here.settle()
    assert bodies(here) == []


def test_ttl_begins_when_a_message_can_be_handed_out() -> None:
    here = LogQueue()
    here.publish("a", expiration_ms=30)
    slowly_stored(here)
    here.world.clock.advance(0.029)
    assert here.gets() == ["a"]
    here.wait(1)  # what is handed out is durable: nothing but the message is written
    for body in ("b", "c"):  # two batches become readable at once
        here.publish(body, expiration_ms=30)
        here.store.write()
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    here.settle()
    here.world.clock.advance(0.029)
    assert here.gets() == ["b", "c"]
    here.publish("d", expiration_ms=30)
    slowly_stored(here)
    here.world.clock.advance(0.031)
    assert here.gets() == []


def test_consumer_of_one_message_at_a_time_gets_each_within_its_ttl() -> None:
    here = LogQueue()
    here.consume(prefetch=1)
    here.publish("a", "b", "c", expiration_ms=30)
    slowly_stored(here)
    found: list[str] = []
    for tag in (1, 2, 3):
        found += bodies(here)
        here.world.clock.advance(0.005)
        here.acknowledge(tag)
    assert found == ["a", "b", "c"]


def test_ttl_does_not_pass_while_a_queues_log_is_made() -> None:
    here = DurableQueue()
    here.queue.publish(Published(message("a"), 0, 30, True), here.now)
    here.queue.publish(Published(message("never"), 0, 0, True), here.now)
    here.world.clock.advance(SLOW_FLUSH_SECONDS)
    here.make_log()
    here.world.clock.advance(0.029)
    here.ask()
    here.ask()
    here.world.settle()
    assert here.bodies() == ["a", None]


@pytest.mark.parametrize("ttl_ms", TTL_MS)
def test_transient_queue_delivers_to_a_consumer_with_credit_however_late(ttl_ms: int) -> None:
    kit = QueueKit(settings(ttl_ms=ttl_ms))
    kit.consume()
    kit.publish("a")
    kit.now += SLOW_FLUSH_SECONDS
    assert kit.deliver() == ["c:a"]


def test_delivery_uses_up_what_its_message_was_published_for() -> None:
    kit = QueueKit(settings(ttl_ms=10, dead_letters=True))
    kit.consume(prefetch=1)
    kit.publish("a")
    assert kit.deliver() == ["c:a"]
    kit.publish("b")
    kit.queue.expire(kit.now + 1)
    assert kit.died() == ["b expired"]


def test_a_purge_ends_what_consumers_could_have_taken() -> None:
    kit = QueueKit(settings(ttl_ms=1000))
    consumer = kit.consume(prefetch=1)
    kit.publish("a")
    assert kit.queue.purge() == 1
    kit.queue.cancel(consumer, kit.now)
    kit.publish("b")
    kit.now += 2
    kit.consume()
    assert kit.deliver() == []


def test_a_returned_message_expires_though_its_consumer_has_credit() -> None:
    kit = QueueKit(settings(ttl_ms=10))
    kit.consume(prefetch=5)
    kit.publish("a")
    assert kit.deliver() == ["c:a"]
    kit.now += 1
    kit.channel.nack(1)
    assert kit.deliver() == []
    assert kit.queue.ready == 0


def test_an_urgent_message_does_not_take_the_credit_of_an_earlier_one() -> None:
    kit = QueueKit(settings(priority_max=5, ttl_ms=10))
    kit.consume(prefetch=1)
    kit.publish("low")
    kit.publish("high", priority=5)
    kit.now += 1
    assert kit.deliver() == ["c:low"]
    assert kit.queue.ready == 0
