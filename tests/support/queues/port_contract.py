"""The contract of `queues.port`: each kind of queue behind it has a test class that plays it.

A subclass gives `place`: a vhost with one queue, on simulated time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headrace.broker.partition import Partition
from headrace.model.nouns import LeaderEpoch
from headrace.ports.callbacks import Done
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue, QueueFlags
from headrace.queues.model.durability import Declared, KeptDone, Model, NothingKept
from headrace.queues.port import Consumer, QueueInfo
from headrace.queues.queue_settings import Published
from headrace.queues.refusals import RefusalKind, Refused
from headrace.queues.stores.log.durable_messages import DurableMessages
from headrace.queues.stores.log.log_writing import QueueLogs
from headrace.queues.stores.log.settled_files import SettledFiles
from headrace.queues.stores.memory.memory_use import MemoryUse
from tests.support.amqp.deliveries import ChannelKit, Delivery, getter
from tests.support.log.log import World
from tests.support.queues.log import CONFIG, PLACE, message

if TYPE_CHECKING:
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.queue_host import QueueHost

OWNER = "connection 1"


class Logs(NothingKept):
    """The logs of durable queues on a simulated disk. Implements `durability.Durability`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.logs = QueueLogs(SettledFiles(world.disk, world.clock), world.clock, self._make)

    def added(self, host: Model, declared: Declared) -> None:
        """Store nothing: the declaration is in memory."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Delete nothing."""

    def when_kept(self, done: KeptDone) -> None:
        done(None)

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        return DurableMessages(self.logs, vhost, queue, priority)

    def topic_store(self, topic: str) -> Any:
        raise AssertionError("there is no topic")

    def _make(self, messages: DurableMessages) -> None:
        """Create the log in the loop's next turn."""
        partition = Partition(self._world.log(PLACE), flusher=self._world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        self._world.clock.call_later(0, lambda: messages.have_log(partition))


class PortPlace:
    """A vhost with the queue `q`, and what its channels were sent."""

    def __init__(self, arguments: dict[str, object] | None = None, *, durable: bool) -> None:
        self.world = World(config=CONFIG)
        durability: Any = Logs(self.world) if durable else None
        self._logs = durability
        hosts = VirtualHosts(
            self.world.clock, lambda: bytes(16), stores_in_memory(MemoryUse()), durability
        )
        self._hosts = hosts
        self.host: QueueHost = hosts.hosts["/"]
        flags = QueueFlags(durable=durable)
        self.queue: AnyQueue = self.host.declare_queue("q", flags, arguments or {}, OWNER)
        self._sent: list[Delivery] = []
        self.cancelled: list[str] = []
        self.channel = self.new_channel()

    # The channels

    def new_channel(self, number: int = 1) -> ChannelKit:
        def cancelled(consumer: Consumer, refused: Refused | None) -> None:
            self.cancelled.append(consumer.tag)

        return ChannelKit(number, sent=self._sent.extend, cancelled=cancelled)

    def consume(self, tag: str = "c", channel: ChannelKit | None = None, **flags: Any) -> Consumer:
        """Add a consumer; it is delivered nothing before `settle`."""
        consumer = Consumer(self.queue, channel or self.channel, tag, **flags)
        self.host.consume(consumer)
        return consumer

    def publish(self, *bodies: str) -> list[bool]:
        """Publish messages; return which were accepted."""
        return [
            self.host.publish(["q"], Published(message(each), 0, None, True)) for each in bodies
        ]

    def published(self, *bodies: str) -> None:
        """Publish messages, and wait until they are stored."""
        assert all(self.publish(*bodies))
        self.settle()

    def wake(self, channel: ChannelKit) -> None:
        """End a channel's method: queues may deliver because of it."""
        self.host.touched(channel.woken)
        channel.woken.clear()

    def settle(self) -> None:
        """Let all that is due happen: writes, flushes, deliveries."""
        for _ in range(10):
            if self._logs is not None:
                self._logs.logs.write()
            self._hosts.turns.run()
            self.world.settle()
        self.world.clock.advance(0.2)  # settlements are written
        self.world.settle()

    def sent(self) -> list[str]:
        """Let all happen; return the deliveries since, as `tag:consumer:body`, `*`: redelivered."""
        self.settle()
        found = [_shown(each) for each in self._sent]
        self._sent.clear()
        return found

    def get(self, channel: ChannelKit | None = None) -> Delivery | None:
        """Do a basic.get; return the delivery, or None if no message is ready."""
        given: list[Any] = []
        now = self.world.clock.monotonic()
        self.queue.get(getter(self.queue, channel or self.channel, given.append, now), now)
        self.settle()
        (found,) = given
        return found  # type: ignore[no-any-return]

    def told(self, ask: Callable[[Done[Any]], object]) -> Any:
        """Call `ask` with a callback; return its argument, which must come once."""
        given: list[Any] = []
        ask(given.append)
        self.settle()
        (found,) = given
        return found


def _shown(delivery: Delivery) -> str:
    consumer, tag, found, redelivered, _ = delivery
    return f"{tag}:{consumer.tag}:{found.body.decode()}{'*' * redelivered}"


class PortContract:
    """The contract, as tests."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        """A vhost with an empty queue."""
        raise NotImplementedError

    def test_messages_are_delivered_in_the_order_of_publishes(self) -> None:
        here = self.place()
        here.published("a", "b")
        here.consume()
        here.publish("c")
        assert here.sent() == ["1:c:a", "2:c:b", "3:c:c"]

    def test_when_stored_reports_once_for_all_publishes_before_it(self) -> None:
        here = self.place()
        here.publish("a", "b")
        assert here.told(here.queue.when_stored) is True
        assert here.queue.info().ready == 2

    def test_prefetch_is_never_exceeded_and_an_ack_makes_room(self) -> None:
        here = self.place()
        here.consume(prefetch=2)
        here.published("a", "b", "c", "d")
        assert here.sent() == ["1:c:a", "2:c:b"]
        here.channel.ack(1)
        here.wake(here.channel)
        assert here.sent() == ["3:c:c"]

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

    def test_paused_channel_is_delivered_nothing_until_it_resumes(self) -> None:
        here = self.place()
        here.channel.pause()
        here.consume()
        here.published("a")
        assert here.sent() == []
        here.channel.resume()
        here.wake(here.channel)
        assert here.sent() == ["1:c:a"]

    def test_no_ack_delivery_is_settled_when_it_is_made(self) -> None:
        here = self.place()
        here.consume(no_ack=True)
        here.published("a", "b")
        assert here.sent() == ["1:c:a", "2:c:b"]
        assert here.queue.info() == QueueInfo(0, 0, 0, 1)

    def test_acknowledged_message_is_not_delivered_again(self) -> None:
        here = self.place()
        consumer = here.consume(prefetch=1)
        here.published("a", "b")
        assert here.sent() == ["1:c:a"]
        here.channel.ack(1)
        here.host.cancel(consumer)
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
        assert here.queue.info() == QueueInfo(0, 0, 0, 1)

    def test_cancelled_consumer_may_settle_its_deliveries(self) -> None:
        here = self.place()
        consumer = here.consume()
        here.published("a", "b")
        assert len(here.sent()) == 2
        here.host.cancel(consumer)
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
        here.host.cancel(consumer)
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
        here.host.cancel(alone)
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
        here.host.cancel(first)
        here.channel.close()
        here.wake(here.channel)
        assert here.sent() == ["1:second:b*"]

    def test_get_returns_the_next_message_without_credit(self) -> None:
        here = self.place()
        here.channel.set_prefetch(1)
        here.published("a", "b", "c")
        assert [_shown(each) for _ in range(3) if (each := here.get())] == ["1::a", "2::b", "3::c"]
        assert here.get() is None
        here.channel.nack(2)
        here.wake(here.channel)
        found = here.get()
        assert found is not None
        assert _shown(found) == "4::b*"

    def test_purge_settles_ready_messages_and_returns_their_number(self) -> None:
        here = self.place()
        here.consume(prefetch=1)
        here.published("a", "b", "c")
        assert here.sent() == ["1:c:a"]
        assert here.told(lambda done: here.host.purge(here.queue, done)) == 2
        here.channel.nack(1)
        here.wake(here.channel)
        assert here.sent() == ["2:c:a*"]

    def test_full_queue_refuses_publishes_until_it_has_room(self) -> None:
        here = self.place({"x-max-length": 2, "x-overflow": "reject-publish"})
        assert here.publish("a", "b", "c") == [True, True, False]
        here.settle()
        found = here.get()
        assert found is not None
        assert here.publish("d") == [True]

    def test_full_queue_drops_its_oldest_ready_messages(self) -> None:
        here = self.place({"x-max-length": 2})
        here.published("a", "b", "c")
        here.consume()
        assert here.sent() == ["1:c:b", "2:c:c"]

    def test_deleted_queue_cancels_its_consumers(self) -> None:
        here = self.place()
        here.consume("c")
        here.consume("d", here.new_channel(2))
        here.published("a")
        assert len(here.sent()) == 1
        here.host.delete_queue("q", OWNER, if_unused=False, if_empty=False)
        here.settle()
        assert here.cancelled == ["c", "d"]
        for tag in tuple(here.channel.held):
            here.channel.ack(tag)  # too late, and without effect

    def test_counts_are_those_of_ready_and_unacknowledged_messages(self) -> None:
        here = self.place()
        here.consume(prefetch=1)
        here.published("a", "bc", "def")
        here.sent()
        assert here.queue.info() == QueueInfo(2, 5, 1, 1)
