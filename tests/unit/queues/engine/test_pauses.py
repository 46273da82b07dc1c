"""Paused queues: a broker that does not lead a queue alone changes nothing of it."""

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.log.settlement_counts import Settled
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Published
from headrace.queues.engine.dead_letter_publishing import RETRY_SECONDS
from headrace.queues.engine.hosted_queue import HostedQueue, stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.port import Consumer, Disposition
from headrace.queues.refusals import RefusalKind, Refused
from headrace.testing.clock import SimClock
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.deliveries import ChannelKit, Delivery, getter
from tests.support.queues.durable import DurableQueue
from tests.support.queues.queues import shown


class Rights:
    """A leadership that a test takes and returns. `delivery_turns.Leadership`."""

    def __init__(self) -> None:
        self.queues: list[HostedQueue] = []
        self.ended: set[HostedQueue] = set()
        """Queues whose right has ended, which `check` finds out."""
        self.last = True
        """Whether the rights of a turn last until its deliveries leave."""

    def hosted(self, vhost: str, queue: HostedQueue) -> None:
        self.queues.append(queue)
        queue.check = self.check

    def removed(self, vhost: str, queue: HostedQueue) -> None:
        self.queues.remove(queue)

    def check(self) -> None:
        for queue in self.ended:
            queue.pause()
        self.ended.clear()

    def guard(self) -> Callable[[], bool]:
        return lambda: self.last


class Place:
    """Queues of a vhost, whose channel notes what it was sent."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.hosts = VirtualHosts(self.clock, lambda: bytes(16), stores_in_memory(MemoryUse()))
        self.turns = self.hosts.turns
        self.rights = self.turns.leadership = Rights()
        self.host = self.hosts.hosts["/"]
        self.sent: list[str] = []
        self.guards: list[Callable[[], bool] | None] = []
        """The guard of the turn at each send."""
        self.channel = ChannelKit(1, sent=self._sent)

    def _sent(self, deliveries: Sequence[Delivery]) -> None:
        self.sent += map(shown, deliveries)
        self.guards.append(self.turns.guard)

    def queue(self, name: str, *, auto_delete: bool = False, **arguments: object) -> HostedQueue:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        flags = QueueFlags(durable="queue_type" in arguments, auto_delete=auto_delete)
        return cast("HostedQueue", self.host.declare_queue(name, flags, named, None))

    def consume(self, queue: HostedQueue, tag: str, priority: int = 0) -> Consumer:
        consumer = Consumer(queue, self.channel, tag, priority=priority)
        self.host.consume(consumer, ignore_result)
        return consumer

    def publish(self, queue: HostedQueue, *bodies: str, expiration_ms: int | None = None) -> None:
        for body in bodies:
            message = Message("", "q", make_header(len(body), Properties()), body.encode())
            self.host.publish((queue.name,), Published(message, 0, expiration_ms))

    def heard(self) -> list[str]:
        """Run a turn; return what was sent since the last call."""
        self.turns.run()
        sent, self.sent = self.sent, []
        return sent


def test_paused_queue_delivers_nothing_and_then_continues() -> None:
    here = Place()
    queue = here.queue("q")
    here.consume(queue, "c")
    here.publish(queue, "a")
    assert here.heard() == ["c:a"]
    queue.pause()
    here.publish(queue, "b")
    assert here.heard() == []
    queue.settle(Disposition.REQUEUED, (0,), (1,))
    here.host.touched((queue,))
    assert here.heard() == []
    queue.begin()
    assert here.heard() == ["c:a again", "c:b"]


def test_right_that_has_ended_is_noticed_before_a_turn() -> None:
    here = Place()
    queue = here.queue("q")
    here.consume(queue, "c")
    here.publish(queue, "a")
    here.rights.ended.add(queue)
    assert here.heard() == []
    assert queue.paused


def test_right_that_has_ended_is_noticed_before_a_timer_acts() -> None:
    here = Place()
    queue = here.queue("q")
    here.publish(queue, "a", expiration_ms=100)
    here.rights.ended.add(queue)
    here.clock.advance(1)
    assert queue.ready == 1


def test_right_that_has_ended_is_noticed_before_a_publish_delivers_at_once() -> None:
    here = Place()
    queue = here.queue("q", max_length=5)
    here.consume(queue, "c")
    here.rights.ended.add(queue)
    here.publish(queue, "a")
    assert (queue.ready, queue.paused) == (1, True)
    assert here.heard() == []


def test_deliveries_of_a_turn_leave_only_while_its_rights_last() -> None:
    here = Place()
    queue = here.queue("q")
    here.consume(queue, "c")
    here.publish(queue, "a")
    here.heard()
    (guard,) = here.guards
    assert guard is not None
    assert guard()
    here.rights.last = False
    assert not guard()
    assert here.turns.guard is None


def test_limited_queue_delivers_and_drops_nothing_while_paused() -> None:
    here = Place()
    queue = here.queue("q", max_length=1)
    here.consume(queue, "c")
    queue.pause()
    here.publish(queue, "a", "b")
    assert queue.ready == 2
    assert here.heard() == []
    queue.begin()
    assert here.heard() == ["c:a", "c:b"]


def test_deliveries_from_before_the_pause_are_sent() -> None:
    here = Place()
    queue = here.queue("q", max_length=5)
    here.consume(queue, "c")
    here.publish(queue, "a")  # delivered at once, as the queue is limited
    queue.pause()
    assert here.heard() == ["c:a"]


def test_deliveries_from_before_the_pause_are_guarded() -> None:
    here = Place()
    queue = here.queue("q", max_length=5)
    here.consume(queue, "c")
    here.publish(queue, "a")
    here.rights.last = False
    here.turns.pause(queue)
    (guard,) = here.guards
    assert guard is not None
    assert not guard()
    assert here.turns.guard is None


def test_paused_queue_expires_and_dead_letters_nothing() -> None:
    here = Place()
    dead = here.queue("dead")
    queue = here.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    here.consume(queue, "c")
    here.publish(queue, "held")
    assert here.heard() == ["c:held"]
    queue.pause()
    here.publish(queue, "old", expiration_ms=100)
    queue.settle(Disposition.REJECTED, (0,))
    here.clock.advance(10)
    here.heard()
    assert (queue.ready, dead.ready) == (1, 0)
    queue.begin()
    here.heard()
    assert (queue.ready, dead.ready) == (0, 2)


def test_refused_dead_letters_are_not_tried_again_while_paused() -> None:
    here = Place()
    queue = here.queue(
        "q", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=100,
        dead_letter_strategy="at-least-once", overflow="reject-publish", queue_type="quorum",
    )  # fmt: skip
    here.publish(queue, "a")
    here.clock.advance(1)
    dead = here.queue("dead")
    queue.pause()
    here.clock.advance(RETRY_SECONDS * 3)
    assert dead.ready == 0
    queue.begin()
    here.clock.advance(RETRY_SECONDS)
    assert dead.ready == 1


def test_paused_queue_does_not_expire_and_has_its_whole_time_again() -> None:
    here = Place()
    queue = here.queue("q", expires=1000)
    queue.pause()
    here.clock.advance(10)
    assert here.rights.queues == [queue]
    queue.begin()
    here.clock.advance(0.9)
    assert here.rights.queues == [queue]
    here.clock.advance(0.2)
    assert here.rights.queues == []


def test_auto_delete_queue_is_deleted_after_the_pause() -> None:
    here = Place()
    queue = here.queue("q", auto_delete=True)
    consumer = here.consume(queue, "c")
    queue.pause()
    here.host.cancel(consumer)
    assert here.rights.queues == [queue]
    queue.begin()
    assert here.rights.queues == []


def test_auto_delete_queue_with_a_new_consumer_stays_after_the_pause() -> None:
    here = Place()
    queue = here.queue("q", auto_delete=True)
    consumer = here.consume(queue, "c")
    queue.pause()
    here.host.cancel(consumer)
    here.consume(queue, "again")
    queue.begin()
    assert not queue.deleted


def test_paused_queue_chooses_no_active_consumer() -> None:
    here = Place()
    queue = here.queue("q", single_active_consumer=True, queue_type="quorum")
    first = here.consume(queue, "first")
    here.consume(queue, "second")
    queue.pause()
    here.host.cancel(first)
    here.consume(queue, "third")
    here.publish(queue, "a")
    assert queue.consumers.active is None
    queue.begin()
    assert here.heard() == ["second:a"]


def test_consumer_that_holds_deliveries_of_the_former_leader_is_active() -> None:
    here = Place()
    queue = here.queue("q", single_active_consumer=True, queue_type="quorum")
    queue.pause()
    here.consume(queue, "first")
    former = here.consume(queue, "former")
    former.unacked = 1
    queue.begin()
    here.publish(queue, "a")
    assert here.heard() == ["former:a"]


def test_active_consumer_stays_through_a_pause() -> None:
    here = Place()
    queue = here.queue("q", single_active_consumer=True, queue_type="quorum")
    here.consume(queue, "first")
    queue.pause()
    here.consume(queue, "second")
    queue.begin()
    here.publish(queue, "a", "b")
    assert here.heard() == ["first:a", "first:b"]


@pytest.mark.parametrize("held", [True, False])
def test_higher_priority_takes_over_after_the_pause(held: bool) -> None:
    here = Place()
    queue = here.queue("q", single_active_consumer=True, queue_type="quorum")
    here.consume(queue, "low")
    if held:
        here.publish(queue, "a")
        assert here.heard() == ["low:a"]
    queue.pause()
    here.consume(queue, "high", priority=1)
    assert queue.consumers.active is not None
    assert queue.consumers.active.tag == "low"
    queue.begin()
    if held:
        here.channel.ack(1)
        here.host.touched(here.channel.woken)
    here.publish(queue, "b")
    assert here.heard() == ["high:b"]


def test_consumer_that_hands_over_waits_for_the_end_of_the_pause() -> None:
    here = Place()
    queue = here.queue("q", single_active_consumer=True, queue_type="quorum")
    here.consume(queue, "low")
    here.publish(queue, "a")
    assert here.heard() == ["low:a"]
    here.consume(queue, "high", priority=1)
    queue.pause()
    here.channel.ack(1)
    here.host.touched(here.channel.woken)
    assert queue.consumers.active is not None
    assert queue.consumers.active.tag == "low"
    queue.begin()
    here.publish(queue, "b")
    assert here.heard() == ["high:b"]


def test_get_and_purge_wait_for_the_end_of_the_pause() -> None:
    here = Place()
    queue = here.queue("q")
    here.publish(queue, "a", "b")
    answers: list[object] = []
    queue.pause()
    now = here.clock.monotonic()
    queue.get(getter(queue, here.channel, lambda _: answers.append("got"), now), now)
    here.host.purge(queue, answers.append)
    here.heard()
    assert answers == []
    queue.begin()
    here.heard()
    assert answers == [2, "got"]


@pytest.mark.parametrize("closed", [True, False])
def test_purge_of_a_paused_queue_that_ends_is_answered(closed: bool) -> None:
    here = Place()
    queue = here.queue("q")
    answers: list[object] = []
    queue.pause()
    here.host.purge(queue, answers.append)
    refused = Refused(RefusalKind.BROKEN, "queue", "it is broken")
    if closed:
        queue.abandon(refused)
    else:
        queue.delete()
    assert answers == [refused if closed else 0]


def test_claims_on_messages_end_with_a_pause() -> None:
    here = Place()
    queue = here.queue("q")
    here.consume(queue, "c")
    here.publish(queue, "a", expiration_ms=100)
    queue.pause()
    here.publish(queue, "b", expiration_ms=100)
    here.clock.advance(1)
    queue.begin()
    assert here.heard() == []
    assert queue.ready == 0


def test_begin_without_a_pause_changes_nothing() -> None:
    here = Place()
    queue = here.queue("q", expires=1000)
    here.clock.advance(0.9)
    queue.begin()
    here.clock.advance(0.2)
    assert queue.deleted


def test_durable_queue_stores_and_settles_while_paused() -> None:
    here = DurableQueue()
    consumer = Consumer(here.queue, here.channel, "c", prefetch=1)
    here.queue.consume(consumer, here.now, ignore_result)
    here.publish("a", "b")
    here.make_log()
    assert here.queue.unacked == 1
    here.queue.pause()
    here.channel.ack(1)
    here.publish("c")
    here.ask()
    here.world.clock.advance(1)
    here.world.settle()
    assert here.told == [True, True]
    assert here.store.settled() == Settled(below=1, durably=1)
    assert (here.got, here.queue.unacked, here.queue.ready) == ([], 0, 2)
    here.queue.begin()
    here.queue.deliver(here.now)
    assert (here.queue.unacked, here.bodies()) == (1, ["c"])  # the consumer has "b"
