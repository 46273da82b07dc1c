"""Turns of a broker's queues: when they are taken, how much one does, and who is told what."""

from collections.abc import Sequence
from typing import cast

import pytest

from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import MessageStore, TopicStore
from headrace.queue_stores.queue_settings import Published
from headrace.queues.engine import delivery_turns
from headrace.queues.engine.hosted_queue import HostedQueue, stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import DeclaredQueue, QueueFlags
from headrace.queues.model.durability import Durability, NothingKept
from headrace.queues.port import Consumer
from headrace.queues.refusals import Refused
from headrace.testing.clock import SimClock
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.deliveries import ChannelKit, Delivery
from tests.support.queues.queues import message_of, shown


class Broker:
    """Vhosts whose clients are lists of what they were told."""

    def __init__(self, durability: Durability | None = None) -> None:
        self.clock = SimClock()
        self.told: list[str] = []
        self.hosts = VirtualHosts(
            self.clock, lambda: bytes(16), stores_in_memory(MemoryUse()), durability
        )
        self.host = self.hosts.hosts["/"]
        self.channel = ChannelKit(1, sent=self.sent, cancelled=self.cancelled)

    def sent(self, deliveries: Sequence[Delivery]) -> None:
        self.told += map(shown, deliveries)

    def cancelled(self, consumer: Consumer, refused: Refused | None) -> None:
        self.told.append(f"{consumer.tag} gone")

    def queue(self, name: str, **arguments: object) -> HostedQueue:
        """A queue with a consumer of its name."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        queue = self.host.declare_queue(name, QueueFlags(), named, None)
        self.host.consume(Consumer(queue, self.channel, name, no_ack=True), ignore_result)
        return cast("HostedQueue", queue)

    def publish(self, route: Sequence[str], *bodies: str) -> None:
        for body in bodies:
            header = make_header(len(body), Properties())
            self.host.publish(route, Published(Message("", "q", header, body.encode())))

    def delete(self, *names: str) -> None:
        for name in names:
            self.host.delete_queue(name, None, if_unused=False, if_empty=False)

    def heard(self) -> list[str]:
        """What was told since this was asked last."""
        told, self.told = self.told, []
        return told


def test_what_is_left_goes_in_a_later_turn_of_the_loop_and_so_does_what_comes_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert delivery_turns.TURN_QUEUES_MAX == 1000
    monkeypatch.setattr(delivery_turns, "TURN_QUEUES_MAX", 2)
    broker = Broker()
    for name in "abcde":
        broker.queue(name)
    while broker.hosts.turns.take():
        pass
    for _ in range(2):
        broker.publish("abcde", "1")
        broker.hosts.turns.run()
        assert broker.heard() == ["a:1", "b:1"]
        broker.hosts.turns.soon()
        broker.clock.turn()
        assert broker.heard() == ["c:1", "d:1"], "one turn, however often it was asked for"
        broker.clock.turn()
        assert broker.heard() == ["e:1"]


def test_a_turn_begins_no_batch_behind_as_many_messages_as_it_may_hand_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert delivery_turns.TURN_MESSAGES_MAX == 2000
    monkeypatch.setattr(delivery_turns, "TURN_MESSAGES_MAX", 2)
    broker = Broker()
    for name in "abc":
        broker.queue(name)
    broker.publish("abc", "1")
    assert broker.hosts.turns.take()
    assert broker.heard() == ["a:1", "b:1"]


def test_messages_that_die_are_of_a_turns_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_turns, "TURN_MESSAGES_MAX", 2)
    broker = Broker()
    dying = broker.queue("a", max_length=0, dead_letter_exchange="")
    dying.cancel(next(iter(dying.consumers)), 0)
    broker.queue("b")
    broker.hosts.turns.run()
    broker.publish(["a"], "1", "2")
    broker.publish(["b"], "3")
    assert broker.hosts.turns.take()
    assert broker.heard() == []
    broker.hosts.turns.run()
    assert broker.heard() == ["b:3"]


def test_all_whose_queues_were_deleted_are_told_before_others_are_given_anything() -> None:
    broker = Broker()
    for name in "abc":
        broker.queue(name)
    broker.publish("abc", "1")
    broker.delete("a", "b")
    broker.hosts.turns.run()
    assert broker.heard() == ["a gone", "b gone", "c:1"]
    broker.delete("c")
    broker.hosts.turns.soon()
    broker.clock.turn()
    assert broker.heard() == ["c gone"]


def test_deleted_queues_have_none_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_turns, "TURN_QUEUES_MAX", 1)
    broker = Broker()
    for name in "abc":
        broker.queue(name)
    broker.publish("abc", "1")
    broker.delete("a", "b")
    broker.hosts.turns.run()
    assert broker.heard() == ["a gone", "b gone", "c:1"]


def test_a_queue_that_a_turn_deletes_is_told_of_in_that_turn() -> None:
    """An exclusive owner that is cut off for what it is given takes its queue along."""

    class CutOff(Broker):
        def sent(self, deliveries: Sequence[Delivery]) -> None:
            super().sent(deliveries)
            self.delete("a")

    broker = CutOff()
    broker.queue("a")
    broker.publish(["a"], "1")
    broker.hosts.turns.run()
    assert broker.heard() == ["a:1", "a gone"]


def test_a_durable_queue_has_the_store_of_its_own_vhost_and_others_are_in_memory() -> None:
    made: list[tuple[str, str, int]] = []

    class Kept(NothingKept):
        def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> MessageStore:
            made.append((vhost, queue.name, priority))
            return MemoryMessages(MemoryUse())

        def topic_store(self, topic: str) -> TopicStore:
            raise AssertionError(topic)

    broker = Broker(Kept())
    other = broker.hosts.add("other")
    for durable, name in enumerate(("passing", "lasting")):
        for host in (broker.host, other):
            host.declare_queue(name, QueueFlags(durable=bool(durable)), {}, None)
    for host in (broker.host, other):
        host.publish(["passing", "lasting"], Published(message_of("1")))
    assert made == [("/", "lasting", 0), ("other", "lasting", 0)]


def test_a_broker_that_is_closed_lets_no_queue_expire() -> None:
    broker = Broker()
    queue = broker.host.declare_queue("q", QueueFlags(), {"x-expires": 1000}, None)
    broker.hosts.close()
    broker.clock.advance(2)
    assert not queue.deleted


def test_closed_turns_deliver_nothing() -> None:
    broker = Broker()
    broker.queue("q")
    broker.hosts.close()
    broker.host.publish(("q",), Published(message_of("a")))
    broker.hosts.turns.run()
    assert broker.told == []
