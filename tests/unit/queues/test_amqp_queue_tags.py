"""What a channel's client says of delivery tags, and what becomes of the messages."""

import pytest

from headrace.queues.port import Disposition
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode
from tests.support.amqp.deliveries import ChannelKit, delivered, got
from tests.support.queues.queues import QueueKit, settings


def held(kit: QueueKit) -> list[int]:
    """The tags that the first channel has not settled."""
    return list(kit.channel.held)


def with_four() -> QueueKit:
    """A queue whose messages a to d are out under the tags 1 to 4."""
    kit = QueueKit()
    kit.consume()
    kit.publish("a", "b", "c", "d")
    kit.deliver()
    return kit


@pytest.mark.parametrize("multiple", [False, True])
def test_an_unknown_tag_closes_the_channel_and_settles_nothing(multiple: bool) -> None:
    kit = with_four()
    kit.channel.ack(2)
    for tag in (2, 5):
        with pytest.raises(ChannelClosing) as closing:
            kit.channel.ack(tag, multiple=multiple)
        assert closing.value.code is ReplyCode.PRECONDITION_FAILED
        assert str(closing.value) == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert held(kit) == [1, 3, 4]


def test_tag_0_names_all_with_multiple_and_nothing_without() -> None:
    kit = with_four()
    with pytest.raises(ChannelClosing, match="unknown delivery tag 0"):
        kit.channel.ack(0)
    kit.channel.ack(0, multiple=True)
    assert (held(kit), kit.queue.unacked) == ([], 0)
    kit.channel.ack(0, multiple=True)


def test_multiple_settles_all_up_to_the_tag_holes_or_not() -> None:
    kit = with_four()
    kit.channel.ack(2)
    kit.channel.ack(3, multiple=True)
    assert (held(kit), kit.queue.unacked) == ([4], 1)


def test_multiple_reaches_over_queues_and_consumers_of_the_channel() -> None:
    kit, other = QueueKit(), QueueKit()
    kit.consume("one")
    other.consume("two", channel=kit.channel)
    for body in "abc":
        kit.publish(body)
        kit.deliver()
        other.publish(body)
        other.deliver()
    kit.channel.ack(5, multiple=True)
    assert (kit.queue.unacked, other.queue.unacked) == (0, 1)
    assert held(kit) == [6]


def test_what_is_put_back_goes_to_its_place_and_is_redelivered() -> None:
    kit = with_four()
    kit.publish("e")
    kit.channel.nack(3)
    kit.channel.nack(1)
    assert kit.queue.ready_bytes == 3
    assert kit.deliver() == ["c:a again", "c:c again", "c:e"]
    assert kit.channel.next_tag == 8


def test_a_nack_of_several_puts_all_back_in_order() -> None:
    kit = with_four()
    kit.channel.nack(3, multiple=True)
    assert held(kit) == [4]
    assert kit.deliver() == ["c:a again", "c:b again", "c:c again"]


def test_recover_puts_everything_back_to_whoever_is_next() -> None:
    kit = with_four()
    other = kit.consume("other")
    kit.channel.recover()
    assert other.unacked == 0
    assert sorted(kit.deliver()) == ["c:a again", "c:c again", "other:b again", "other:d again"]


def test_a_closed_channel_puts_back_what_it_held_of_every_queue_in_order() -> None:
    kit, other = QueueKit(), QueueKit()
    consumers = [kit.consume("c"), other.consume("d", channel=kit.channel)]
    for each in (kit, other):
        each.publish("a", "b", "c")
        each.deliver()
    kit.channel.ack(2)
    for consumer, each in zip(consumers, (kit, other), strict=True):
        each.queue.cancel(consumer, kit.now)
    kit.channel.close()
    assert set(kit.woken()) == {kit.queue, other.queue}
    kit.consume("e", channel=ChannelKit(2))
    assert kit.deliver() == ["e:a again", "e:c again"]
    assert (other.queue.ready, other.queue.unacked) == (3, 0)


def test_ack_of_all_up_to_a_tag_settles_what_a_rollback_gave_back() -> None:
    kit = QueueKit()
    kit.consume()
    kit.publish("a", "b", "c")
    kit.deliver()
    (first,), (second,) = kit.channel.take(1, multiple=False), kit.channel.take(2, multiple=True)
    assert kit.channel.next_deadline(1000) is not None, "the third one's"
    kit.channel.give_back([(1, first), (2, second)])
    kit.channel.ack(3, multiple=True)
    assert (kit.queue.unacked, dict(kit.channel.held)) == (0, {})


def test_what_is_rejected_for_good_is_gone_where_nobody_wants_dead_letters() -> None:
    kit = with_four()
    kit.channel.nack(2, requeue=False)
    assert (kit.queue.ready, kit.queue.unacked, kit.died()) == (0, 3, [])


def test_a_get_is_held_under_a_tag_unless_it_needs_no_ack() -> None:
    kit = QueueKit()
    kit.publish("a", "b")
    assert kit.get() == ":a"
    assert kit.get(no_ack=True) == ":b"
    assert kit.get() is None
    assert (held(kit), kit.channel.next_tag, kit.queue.unacked) == ([1], 3, 1)
    kit.channel.nack(1)
    assert kit.get() == ":a again"


def test_a_message_that_came_back_more_often_than_the_limit_dies() -> None:
    kit = QueueKit(settings(delivery_limit=2, dead_letters=True))
    kit.publish("a", "b")
    for count in range(3):
        delivery = got(kit.queue, kit.channel, kit.now)
        assert delivery is not None
        assert delivery[4] == count
        kit.channel.nack(delivery[1])
    assert (kit.queue.ready, kit.queue.ready_bytes) == (1, 1)
    assert kit.died() == ["a delivery_limit"]
    assert kit.get() == ":b"


def test_message_that_did_not_reach_its_consumer_is_not_counted_as_returned() -> None:
    kit = QueueKit(settings(delivery_limit=1, dead_letters=True))
    kit.publish("a")
    for _ in range(3):
        assert got(kit.queue, kit.channel, kit.now) is not None
        kit.channel.settle(Disposition.UNDELIVERED, kit.channel.take(0, multiple=True))
    delivery = got(kit.queue, kit.channel, kit.now)
    assert delivery is not None
    assert delivery[3:] == (True, 0)
    assert kit.died() == []


def test_the_oldest_delivery_has_its_time_and_the_next_one_its_own() -> None:
    kit = QueueKit(settings(consumer_timeout_ms=1000))
    kit.consume(prefetch=1)
    assert kit.channel.next_deadline() is None
    kit.publish("a", "b")
    kit.deliver()
    assert kit.channel.next_deadline() == kit.now + 1
    kit.now += 0.9
    kit.channel.ack(1)
    assert kit.channel.next_deadline() is None
    kit.deliver()
    assert kit.channel.next_deadline() == kit.now + 1
    kit.channel.expire(kit.now + 0.99)
    with pytest.raises(ChannelClosing) as closing:
        kit.channel.expire(kit.now + 1)
    assert str(closing.value) == (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
        "Timeout value used: 1000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )


def test_the_time_of_each_of_several_deliveries_counts_from_when_it_was_given() -> None:
    kit = QueueKit(settings(consumer_timeout_ms=1000))
    kit.consume()
    start = kit.now
    for body in "abc":
        kit.publish(body)
        kit.deliver()
        kit.now += 0.25
    assert kit.channel.next_deadline() == start + 1
    kit.channel.ack(1)
    assert kit.channel.next_deadline() == start + 1.25
    kit.channel.ack(3)
    assert kit.channel.next_deadline() == start + 1.25
    kit.channel.ack(2)
    assert kit.channel.next_deadline() is None


def test_a_queue_without_a_timeout_lets_its_deliveries_be() -> None:
    kit = with_four()
    assert kit.channel.next_deadline() is None
    kit.channel.expire(kit.now + 1e9)


def test_what_a_channel_holds_of_a_deleted_queue_is_forgotten_when_it_is_settled() -> None:
    kit = with_four()
    kit.publish("e")
    assert kit.queue.delete() == 1
    kit.channel.ack(1)
    kit.channel.nack(2)
    kit.channel.nack(3, requeue=False)
    kit.channel.close()
    assert (kit.queue.ready, kit.died(), held(kit)) == (0, [], [])


def test_only_what_came_back_is_told_as_given_back_before() -> None:
    kit = QueueKit(settings(delivery_limit=5))
    kit.publish("a", "b", "c")
    kit.consume(prefetch=2)
    kit.deliver()
    kit.channel.settle(Disposition.REQUEUED, kit.channel.take(1, multiple=False))
    kit.consume("d")
    given = delivered(kit.queue, kit.now)
    assert {each[2].body: each[4] for each in given} == {b"a": 1, b"c": 0}
