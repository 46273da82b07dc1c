"""Single active consumers: which consumer is the active one, and when another takes over."""

import pytest

from headrace.queue_stores.queue_settings import QueueType
from tests.support.amqp.deliveries import ChannelKit
from tests.support.queues.queues import QueueKit, settings


def kit_of(queue_type: QueueType = QueueType.QUORUM) -> QueueKit:
    """A queue with a single active consumer."""
    return QueueKit(settings(single_active_consumer=True, queue_type=queue_type))


def settle_all(kit: QueueKit) -> None:
    """Acknowledge what the first channel holds."""
    kit.channel.ack(0, multiple=True)


def test_higher_priority_takes_over_once_the_active_one_holds_nothing() -> None:
    kit = kit_of()
    kit.consume("low")
    kit.publish("a", "b", "c")
    assert kit.deliver() == ["low:a", "low:b", "low:c"]
    kit.consume("high", priority=10)
    kit.publish("d")
    assert kit.deliver() == []
    kit.channel.ack(1)
    kit.channel.ack(3)
    assert kit.deliver() == []
    kit.channel.nack(2)
    assert kit.woken() == [kit.queue]
    assert kit.deliver() == ["high:b again", "high:d"]


@pytest.mark.parametrize("no_ack", [False, True])
def test_higher_priority_takes_over_at_once_from_one_that_holds_nothing(no_ack: bool) -> None:
    kit = kit_of()
    kit.consume("low", no_ack=no_ack)
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    if not no_ack:
        settle_all(kit)
    kit.consume("high", priority=1)
    kit.publish("b")
    assert kit.deliver() == ["high:b"]


def test_classic_queue_keeps_its_active_consumer() -> None:
    kit = kit_of(QueueType.CLASSIC)
    low = kit.consume("low")
    kit.consume("high", priority=10)
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    kit.queue.cancel(low, kit.now)
    kit.publish("b")
    assert kit.deliver() == ["high:b"]


@pytest.mark.parametrize("priority", [-1, 0])
def test_priority_that_is_not_higher_takes_nothing_over(priority: int) -> None:
    kit = kit_of()
    kit.consume("first")
    kit.consume("second", priority=priority)
    kit.publish("a")
    assert kit.deliver() == ["first:a"]


def test_highest_of_two_waiting_consumers_takes_over() -> None:
    kit = kit_of()
    kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    kit.consume("high", priority=1)
    kit.consume("highest", priority=2)
    settle_all(kit)
    kit.publish("b")
    assert kit.deliver() == ["highest:b"]


def test_active_one_goes_on_where_its_successor_leaves_before_it_hands_over() -> None:
    kit = kit_of()
    kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    high = kit.consume("high", priority=1)
    kit.publish("b")
    assert kit.deliver() == []
    kit.queue.cancel(high, kit.now)
    assert kit.deliver() == ["low:b"]
    settle_all(kit)
    kit.publish("c")
    assert kit.deliver() == ["low:c"]


def test_second_successor_takes_over_where_the_first_leaves() -> None:
    kit = kit_of()
    kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    highest = kit.consume("highest", priority=2)
    kit.consume("high", priority=1)
    kit.queue.cancel(highest, kit.now)
    kit.publish("b")
    assert kit.deliver() == []
    settle_all(kit)
    assert kit.deliver() == ["high:b"]


def test_active_one_that_is_cancelled_hands_over_at_once() -> None:
    kit = kit_of()
    low = kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    kit.consume("high", priority=1)
    kit.queue.cancel(low, kit.now)
    kit.publish("b")
    assert kit.deliver() == ["high:b"]
    settle_all(kit)
    kit.publish("c")
    assert kit.deliver() == ["high:c"]


def test_closed_channel_of_the_active_one_hands_over_what_it_held() -> None:
    kit = kit_of()
    low = kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    kit.consume("high", priority=1, channel=ChannelKit(2))
    kit.queue.cancel(low, kit.now)
    kit.channel.close()
    assert kit.deliver() == ["high:a again"]


def test_consumer_without_credit_hands_over_when_it_has_settled() -> None:
    kit = kit_of()
    kit.consume("low", prefetch=1)
    kit.publish("a", "b")
    assert kit.deliver() == ["low:a"]
    assert kit.deliver() == []
    kit.consume("high", priority=1, channel=ChannelKit(2))
    assert kit.deliver() == []
    settle_all(kit)
    assert kit.deliver() == ["high:b"]


def test_paused_channel_hands_over_and_resumes_as_one_that_waits() -> None:
    kit = kit_of()
    kit.consume("low")
    kit.publish("a")
    assert kit.deliver() == ["low:a"]
    other = ChannelKit(2)
    kit.consume("high", priority=1, channel=other)
    kit.channel.pause()
    kit.channel.resume()
    kit.publish("b")
    assert kit.deliver() == []
    kit.channel.pause()
    settle_all(kit)
    assert kit.deliver() == ["high:b"]
    kit.channel.resume()
    other.pause()
    kit.publish("c")
    assert kit.deliver() == []
    other.resume()
    assert kit.deliver() == ["high:c"]


def test_consumer_that_handed_over_follows_when_the_higher_one_leaves() -> None:
    kit = kit_of()
    kit.consume("first")
    other = ChannelKit(2)
    kit.consume("second", channel=other)
    high = kit.consume("high", priority=1, channel=other)
    kit.queue.cancel(high, kit.now)
    kit.publish("a")
    assert kit.deliver() == ["second:a"], "the one that handed over is behind its equals"


def test_limits_of_a_channel_hold_for_the_successor() -> None:
    kit = kit_of()
    kit.consume("low", prefetch=1)
    other = ChannelKit(2)
    kit.consume("high", priority=1, prefetch=2, channel=other)
    kit.publish("a", "b", "c")
    assert kit.deliver() == ["high:a", "high:b"]
    assert kit.deliver() == []
    other.ack(1)
    assert kit.deliver() == ["high:c"]
