"""The contract of `queues.port`: each kind of queue behind it has a test class that plays it.

`PortContract` holds for all, `QueueContract` for queues that are no streams. A subclass gives
`place`: a vhost with one queue, on simulated time.
"""

import pytest

from headrace.queues.port import QueueInfo
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.port_place import PortPlace, shown


class PortContract:
    """The contract of all queues, as tests."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        """A vhost with an empty queue."""
        raise NotImplementedError

    def test_messages_are_delivered_in_the_order_of_publishes(self) -> None:
        here = self.place()
        here.published("a", "b")
        here.consume()
        here.publish("c")
        assert here.sent() == ["1:c:a", "2:c:b", "3:c:c"]

    def test_prefetch_is_never_exceeded_and_an_ack_makes_room(self) -> None:
        here = self.place()
        here.consume(prefetch=2)
        here.published("a", "b", "c", "d")
        assert here.sent() == ["1:c:a", "2:c:b"]
        here.channel.ack(1)
        here.wake(here.channel)
        assert here.sent() == ["3:c:c"]

    def test_paused_channel_is_delivered_nothing_until_it_resumes(self) -> None:
        here = self.place()
        here.channel.pause()
        here.consume()
        here.published("a")
        assert here.sent() == []
        here.channel.resume()
        here.wake(here.channel)
        assert here.sent() == ["1:c:a"]

    def test_deleted_queue_cancels_its_consumers(self) -> None:
        here = self.place()
        here.consume("c")
        here.consume("d", here.new_channel(2))
        here.published("a")
        assert here.sent()
        here.delete()
        assert here.cancelled == ["c", "d"]
        for tag in tuple(here.channel.held):
            here.channel.ack(tag)  # too late, and without effect

    def test_when_stored_reports_each_publish_before_it_once(self) -> None:
        here = self.place()
        assert here.publish("a", "b") == [True, True]
        assert here.publish("c") == [True]
        assert here.counts().ready == 3

    def test_when_stored_without_publishes_reports_nothing_unstored(self) -> None:
        here = self.place()
        assert not here.told(here.queue.when_stored)

    def test_cancelled_consumer_is_delivered_nothing_more(self) -> None:
        here = self.place()
        consumer = here.consume(prefetch=1)
        here.published("a", "b")
        assert here.sent() == ["1:c:a"]
        here.cancel(consumer)
        here.channel.ack(1)
        here.wake(here.channel)
        assert here.sent() == []
        assert here.counts().consumers == 0

    def test_cancelled_consumer_is_cancelled_once(self) -> None:
        here = self.place()
        consumer = here.consume()
        here.cancel(consumer)
        here.cancel(consumer)
        here.settle()
        assert here.counts().consumers == 0
        assert here.cancelled == []


class QueueContract(PortContract):
    """The contract of queues that deliver each message to one consumer, as tests."""

    def test_consumers_of_a_channel_share_its_prefetch(self) -> None:
        here = self.place()
        here.channel.set_prefetch(3)
        here.consume("c")
        here.consume("d")
        here.published(*"abcdef")
        assert len(here.sent()) == 3
        assert here.channel.unacked == 3
        here.channel.ack(0, multiple=True)
        here.wake(here.channel)
        assert len(here.sent()) == 3

    def test_raised_prefetch_of_a_channel_delivers_more(self) -> None:
        here = self.place()
        here.channel.set_prefetch(1)
        here.consume()
        here.published("a", "b")
        assert here.sent() == ["1:c:a"]
        here.channel.set_prefetch(2)
        here.wake(here.channel)
        assert here.sent() == ["2:c:b"]

    def test_no_ack_delivery_is_settled_when_it_is_made(self) -> None:
        here = self.place()
        here.consume(no_ack=True)
        here.published("a", "b")
        assert here.sent() == ["1:c:a", "2:c:b"]
        assert here.counts() == QueueInfo(0, 0, 0, 1)

    def test_acknowledged_message_is_not_delivered_again(self) -> None:
        here = self.place()
        consumer = here.consume(prefetch=1)
        here.published("a", "b")
        assert here.sent() == ["1:c:a"]
        here.channel.ack(1)
        here.cancel(consumer)
        here.channel.close()
        here.consume("d", here.new_channel(2))
        assert here.sent() == ["1:d:b"]

    def test_requeued_message_precedes_later_ones_and_is_redelivered(self) -> None:
        here = self.place()
        here.consume(prefetch=2)
        here.published("a", "b", "c")
        assert here.sent() == ["1:c:a", "2:c:b"]
        here.channel.nack(1)
        here.wake(here.channel)
        assert here.sent() == ["3:c:a*"]
        here.channel.ack(2)
        here.wake(here.channel)
        assert here.sent() == ["4:c:c"]

    def test_requeued_messages_keep_the_order_of_publishes(self) -> None:
        here = self.place()
        here.consume()
        here.published("a", "b", "c")
        assert here.sent() == ["1:c:a", "2:c:b", "3:c:c"]
        for tag in (3, 1, 2):
            here.channel.nack(tag)
        here.wake(here.channel)
        assert here.sent() == ["4:c:a*", "5:c:b*", "6:c:c*"]

    def test_rejected_message_is_dropped_without_a_dead_letter_exchange(self) -> None:
        here = self.place()
        here.consume()
        here.published("a")
        assert here.sent() == ["1:c:a"]
        here.channel.nack(1, requeue=False)
        here.wake(here.channel)
        assert here.sent() == []
        assert here.counts() == QueueInfo(0, 0, 0, 1)

    def test_cancelled_consumer_may_settle_its_deliveries(self) -> None:
        here = self.place()
        consumer = here.consume()
        here.published("a", "b")
        assert len(here.sent()) == 2
        here.cancel(consumer)
        here.consume("d", here.new_channel(2))
        assert here.sent() == []
        here.channel.ack(1)
        here.channel.nack(2)
        here.wake(here.channel)
        assert here.sent() == ["1:d:b*"]

    def test_deliveries_of_a_closed_channel_are_redelivered_to_others(self) -> None:
        here = self.place()
        consumer = here.consume(prefetch=2)
        here.consume("d", here.new_channel(2), prefetch=1)
        here.published("a", "b", "c", "d")
        assert sorted(each.split(":", 1)[1] for each in here.sent()) == ["c:a", "c:c", "d:b"]
        here.cancel(consumer)
        here.channel.close()
        here.consume("e", here.new_channel(3))
        assert here.sent() == ["1:e:a*", "2:e:c*", "3:e:d"]

    def test_consumers_with_credit_take_turns(self) -> None:
        here = self.place()
        here.consume("c")
        here.consume("d", here.new_channel(2))
        here.published("a", "b", "c", "d")
        assert sorted(here.sent()) == ["1:c:a", "1:d:b", "2:c:c", "2:d:d"]

    def test_consumer_of_the_highest_priority_is_served_first(self) -> None:
        here = self.place()
        here.consume("low", prefetch=1)
        here.consume("high", here.new_channel(2), prefetch=1, priority=5)
        here.published("a", "b")
        assert sorted(here.sent()) == ["1:high:a", "1:low:b"]

    def test_exclusive_consumer_excludes_others(self) -> None:
        here = self.place()
        alone = here.consume(exclusive=True)
        with pytest.raises(Refused) as refused:
            here.consume("d", here.new_channel(2))
        assert refused.value.kind is RefusalKind.IN_EXCLUSIVE_USE
        here.cancel(alone)
        here.consume("d", here.new_channel(2))
        here.published("a")
        assert here.sent() == ["1:d:a"]

    def test_single_active_consumer_is_followed_by_the_next(self) -> None:
        here = self.place({"x-single-active-consumer": True})
        first = here.consume("first")
        here.consume("second", here.new_channel(2))
        here.published("a", "b")
        assert here.sent() == ["1:first:a", "2:first:b"]
        here.channel.ack(1)
        here.cancel(first)
        here.channel.close()
        here.wake(here.channel)
        assert here.sent() == ["1:second:b*"]

    def test_get_returns_the_next_message_without_credit(self) -> None:
        here = self.place()
        here.channel.set_prefetch(1)
        here.published("a", "b", "c")
        assert [shown(each) for _ in range(3) if (each := here.get())] == ["1::a", "2::b", "3::c"]
        assert here.get() is None
        here.channel.nack(2)
        here.wake(here.channel)
        found = here.get()
        assert found is not None
        assert shown(found) == "4::b*"

    def test_purge_settles_ready_messages_and_returns_their_number(self) -> None:
        here = self.place()
        here.consume(prefetch=1)
        here.published("a", "b", "c")
        assert here.sent() == ["1:c:a"]
        assert here.purge() == 2
        here.channel.nack(1)
        here.wake(here.channel)
        assert here.sent() == ["2:c:a*"]

    def test_full_queue_refuses_publishes_until_it_has_room(self) -> None:
        here = self.place({"x-max-length": 2, "x-overflow": "reject-publish"})
        assert here.publish("a", "b", "c") == [True, True, False]
        found = here.get()
        assert found is not None
        assert here.publish("d") == [True]

    def test_full_queue_drops_its_oldest_ready_messages(self) -> None:
        here = self.place({"x-max-length": 2})
        here.published("a", "b", "c")
        here.consume()
        assert here.sent() == ["1:c:b", "2:c:c"]

    def test_counts_are_those_of_ready_and_unacknowledged_messages(self) -> None:
        here = self.place()
        here.consume(prefetch=1)
        here.published("a", "bc", "def")
        here.sent()
        assert here.counts() == QueueInfo(2, 5, 1, 1)
