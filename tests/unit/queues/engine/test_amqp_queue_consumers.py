"""Consumers of a queue: whose turn it is, how much each may hold, who has the queue for himself."""

import pytest

from headrace.queues.engine.message_queue import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.amqp.deliveries import ChannelKit
from tests.support.queues.queues import QueueKit, settings
from tests.support.queues.virtual_hosts import refusal


def test_messages_go_out_in_order_and_are_counted_as_unacked_until_they_are_acked() -> None:
    kit = QueueKit()
    consumer = kit.consume()
    assert kit.publish("a", "b") == [True, True]
    assert (kit.queue.ready, kit.queue.ready_bytes) == (2, 2)
    assert kit.deliver() == ["c:a", "c:b"]
    assert (kit.queue.ready, kit.queue.ready_bytes, kit.queue.unacked) == (0, 0, 2)
    kit.channel.ack(1)
    kit.channel.ack(2)
    assert (kit.queue.unacked, consumer.unacked, kit.channel.unacked) == (0, 0, 0)
    assert kit.deliver() == []


def test_prefetch_is_never_exceeded_and_an_ack_makes_room_for_one() -> None:
    kit = QueueKit()
    kit.consume(prefetch=2)
    kit.publish("a", "b", "c", "d")
    assert kit.deliver() == ["c:a", "c:b"]
    assert kit.deliver() == []
    kit.channel.ack(1)
    assert kit.woken() == [kit.queue]
    assert kit.deliver() == ["c:c"]


def test_a_channels_prefetch_holds_for_all_its_consumers_on_all_queues_together() -> None:
    kit, other = QueueKit(), QueueKit()
    kit.channel.set_prefetch(3)
    kit.consume("one")
    kit.consume("two")
    other.consume("three", channel=kit.channel)
    kit.publish("a", "b", "c", "d")
    other.publish("x", "y")
    assert kit.deliver() == ["one:a", "two:b", "one:c"]
    assert other.deliver() == []
    kit.channel.ack(2, multiple=True)
    assert set(kit.woken()) == {kit.queue, other.queue}
    assert other.deliver() == ["three:x", "three:y"]
    assert kit.deliver() == []
    kit.channel.ack(3)
    assert kit.deliver() == ["two:d"]


def test_a_higher_channel_limit_lets_parked_consumers_take_again() -> None:
    kit = QueueKit()
    kit.channel.set_prefetch(1)
    kit.consume()
    kit.publish("a", "b", "c")
    assert kit.deliver() == ["c:a"]
    assert kit.deliver() == []
    kit.channel.set_prefetch(2)
    assert kit.deliver() == ["c:b"]
    kit.channel.set_prefetch(0)
    assert kit.deliver() == ["c:c"]


def test_what_basic_get_gave_counts_against_no_prefetch() -> None:
    kit = QueueKit()
    kit.channel.set_prefetch(1)
    kit.publish("a", "b", "c")
    assert kit.get() == ":a"
    kit.consume(prefetch=1)
    assert kit.deliver() == ["c:b"]
    kit.channel.ack(1)
    assert kit.deliver() == []
    assert (kit.channel.unacked, kit.queue.unacked) == (1, 1)


def test_a_paused_channel_gets_nothing_until_it_is_resumed() -> None:
    kit = QueueKit()
    kit.consume(no_ack=True)
    kit.channel.pause()
    kit.publish("a")
    assert kit.deliver() == []
    kit.channel.resume()
    assert kit.woken() == [kit.queue]
    assert kit.deliver() == ["c:a"]


def test_a_consumer_without_acks_holds_nothing_and_its_prefetch_says_nothing() -> None:
    kit = QueueKit()
    kit.consume(no_ack=True, prefetch=1)
    kit.publish("a", "b", "c")
    assert kit.deliver() == ["c:a", "c:b", "c:c"]
    assert (kit.queue.unacked, kit.channel.held) == (0, {})
    assert kit.channel.next_tag == 4


def test_equal_consumers_take_turns_one_message_each_also_over_several_calls() -> None:
    kit = QueueKit()
    for tag in "xyz":
        kit.consume(tag)
    kit.publish("1", "2", "3", "4")
    assert sorted(kit.deliver()) == ["x:1", "x:4", "y:2", "z:3"]
    kit.publish("5", "6")
    assert kit.deliver() == ["y:5", "z:6"]
    kit.publish("7")
    assert kit.deliver() == ["x:7"]


def test_who_has_no_credit_loses_no_turn_of_the_others() -> None:
    kit = QueueKit()
    kit.consume("x", prefetch=1)
    kit.consume("y")
    kit.publish("1", "2", "3", "4")
    assert sorted(kit.deliver()) == ["x:1", "y:2", "y:3", "y:4"]


def test_higher_priorities_go_first_and_lower_ones_get_what_they_can_not_take() -> None:
    kit = QueueKit()
    kit.consume("low")
    kit.consume("high", prefetch=2, priority=5)
    kit.publish("1", "2", "3")
    assert kit.deliver() == ["high:1", "high:2", "low:3"]
    kit.channel.ack(1)
    kit.publish("4", "5")
    assert kit.deliver() == ["high:4", "low:5"]


def test_an_exclusive_consumer_has_the_queue_for_itself_until_it_is_cancelled() -> None:
    kit = QueueKit()
    owner = kit.consume("owner", exclusive=True)
    with pytest.raises(Refused) as refused:
        kit.consume("other")
    assert refused.value.kind is RefusalKind.IN_EXCLUSIVE_USE
    assert refusal(refused) == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    kit.queue.cancel(owner, kit.now)
    kit.consume("other")
    with pytest.raises(Refused, match="in exclusive use"):
        kit.consume("owner", exclusive=True)


def test_a_single_active_consumer_takes_all_and_the_next_one_takes_over() -> None:
    kit = QueueKit(settings(single_active_consumer=True))
    first = kit.consume("first", prefetch=1)
    kit.consume("second")
    kit.consume("third", priority=1)
    with pytest.raises(Refused, match="in exclusive use"):
        kit.consume("fourth", exclusive=True)
    kit.publish("1", "2", "3")
    assert kit.deliver() == ["first:1"]
    kit.queue.cancel(first, kit.now)
    assert kit.deliver() == ["third:2", "third:3"]
    kit.channel.ack(1)
    assert kit.queue.unacked == 2


def test_what_a_cancelled_consumer_holds_stays_with_its_channel() -> None:
    kit = QueueKit()
    consumer = kit.consume(prefetch=1)
    kit.publish("a", "b")
    assert kit.deliver() == ["c:a"]
    kit.queue.cancel(consumer, kit.now)
    assert (len(kit.queue.consumers), kit.queue.unacked) == (0, 1)
    kit.channel.ack(1)
    assert (kit.queue.unacked, kit.queue.ready) == (0, 1)
    assert kit.deliver() == []


def test_a_parked_consumer_that_is_cancelled_comes_back_by_no_ack() -> None:
    kit = QueueKit()
    consumer = kit.consume(prefetch=1)
    kit.publish("a", "b")
    kit.deliver()
    kit.deliver()
    kit.queue.cancel(consumer, kit.now)
    assert not kit.channel.parked
    kit.channel.ack(1)
    kit.channel.set_prefetch(9)
    assert kit.deliver() == []


def test_one_call_hands_out_no_more_than_a_batch_and_says_that_there_is_more() -> None:
    kit = QueueKit()
    kit.consume()
    kit.publish(*["x"] * (BATCH_MESSAGES_MAX + 1))
    assert len(kit.deliver()) == BATCH_MESSAGES_MAX
    assert kit.queue.more
    assert len(kit.deliver()) == 1
    assert not kit.queue.more


def test_one_call_stops_after_so_many_bytes_but_gives_one_message_however_large() -> None:
    kit = QueueKit()
    kit.consume()
    large = "x" * BATCH_BYTES_MAX
    kit.publish(large + "y", large, "z")
    assert [len(body) for body in kit.deliver()] == [len(large) + 3]
    assert kit.queue.more
    assert [len(body) for body in kit.deliver()] == [len(large) + 2]
    assert kit.deliver() == ["c:z"]


def test_messages_that_fill_a_batch_to_the_byte_go_out_together() -> None:
    kit = QueueKit()
    kit.consume()
    kit.publish("x" * (BATCH_BYTES_MAX - 1), "y", "z")
    assert len(kit.deliver()) == 2
    assert kit.deliver() == ["c:z"]


def test_a_queue_that_lost_its_last_consumer_is_left_one_that_never_had_any_is_not() -> None:
    kit = QueueKit()
    assert not kit.queue.is_left
    consumer = kit.consume()
    assert not kit.queue.is_left
    kit.queue.cancel(consumer, kit.now)
    assert kit.queue.is_left


def test_two_consumers_that_share_a_channels_last_credit_get_one_message_between_them() -> None:
    kit = QueueKit()
    other = ChannelKit(2)
    kit.channel.set_prefetch(1)
    kit.consume("x")
    kit.consume("y")
    kit.consume("z", channel=other, prefetch=1)
    kit.publish("1", "2", "3", "4")
    given = kit.deliver()
    assert len(given) == 2
    assert (kit.channel.unacked, other.unacked) == (1, 1)
