"""Queues begin and pause as their broker's rights do, and wait for the former leader's homes."""

from collections.abc import Callable
from typing import Any

from headrace.model.nouns import BrokerId, TopicPartition
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.queue_names import queue_topic
from headrace.server.cluster.queue_leadership import QueueLeadership
from tests.support.queues.durable import DurableQueue

HOMES = frozenset((BrokerId(7), BrokerId(8)))


class Rights:
    """Rights that a test gives and takes, with homes that the former leader named."""

    def __init__(self) -> None:
        self.homes: frozenset[BrokerId] = frozenset()
        self.checks = 0
        self.listener: Any = None

    def take_homes(self, partition: TopicPartition) -> frozenset[BrokerId]:
        homes, self.homes = self.homes, frozenset()
        return homes

    def check(self) -> None:
        self.checks += 1

    def close(self) -> None:
        raise AssertionError("it is not closed")


class Kit:
    """A durable queue and its leadership."""

    def __init__(self) -> None:
        rights: Any = Rights()
        self.rights: Rights = rights
        self.leadership = QueueLeadership(rights, rights)
        self.queue = DurableQueue().queue
        self.topic = queue_topic("/", self.queue.name)

    def host(self) -> HostedQueue:
        self.leadership.hosted("/", self.queue)
        return self.queue

    def paused(self) -> bool:
        """Whether the queue is paused."""
        return self.queue.paused

    def right(self, held: bool | None, partition: int = 0) -> None:
        self.rights.listener.right_changed(TopicPartition(self.topic, partition), held)


def test_queue_is_paused_until_its_right_begins() -> None:
    kit = Kit()
    kit.host()
    assert kit.paused()
    kit.right(False)
    assert kit.paused()
    kit.right(True)
    assert not kit.paused()
    kit.right(False)
    assert kit.paused()
    kit.right(True)
    kit.right(None)
    assert kit.paused()


def test_queue_that_is_hosted_later_begins_at_once() -> None:
    kit = Kit()
    kit.right(True)
    kit.host()
    assert not kit.paused()


def test_queue_of_several_partitions_needs_the_right_to_all() -> None:
    kit = Kit()
    kit.host()
    kit.right(False, 0)
    kit.right(False, 1)
    kit.right(True, 1)
    assert kit.paused()
    kit.right(True, 0)
    assert not kit.paused()
    kit.right(None, 1)
    assert not kit.paused()
    kit.right(None, 0)
    assert kit.paused()


def test_queue_in_memory_needs_no_right() -> None:
    kit = Kit()
    kit.queue.late_stores.clear()
    kit.host()
    assert not kit.paused()


def test_removed_queue_is_left_as_it_is() -> None:
    kit = Kit()
    queue = kit.host()
    kit.leadership.removed("/", queue)
    kit.leadership.removed("/", queue)
    kit.right(True)
    assert kit.paused()


def waiting(kit: Kit) -> list[Callable[[], None]]:
    """Have homes waited for; return the callbacks of the waits."""
    callbacks: list[Callable[[], None]] = []

    def wait(topic: str, homes: frozenset[BrokerId], attached: Callable[[], None]) -> None:
        assert (topic, homes) == (kit.topic, HOMES)
        callbacks.append(attached)

    kit.leadership.wait_for_homes = wait
    kit.rights.homes = HOMES
    return callbacks


def test_queue_begins_when_the_former_homes_have_attached() -> None:
    kit = Kit()
    callbacks = waiting(kit)
    kit.host()
    kit.right(True)
    assert kit.paused()
    kit.right(True)  # of another partition: no second wait
    (attached,) = callbacks
    attached()
    assert not kit.paused()
    attached()
    kit.right(False)
    kit.right(True)
    assert not kit.paused()
    assert len(callbacks) == 1


def test_homes_are_waited_for_once_the_queue_is_hosted() -> None:
    kit = Kit()
    callbacks = waiting(kit)
    kit.right(True)
    assert callbacks == []
    kit.host()
    assert kit.paused()
    callbacks[0]()
    assert not kit.paused()


def test_wait_for_homes_ends_with_the_right() -> None:
    kit = Kit()
    callbacks = waiting(kit)
    queue = kit.host()
    kit.right(True)
    kit.right(False)
    callbacks[0]()
    assert kit.paused()
    kit.right(True)
    kit.leadership.removed("/", queue)
    callbacks[0]()


def test_wait_for_homes_ends_with_the_queue() -> None:
    kit = Kit()
    callbacks = waiting(kit)
    queue = kit.host()
    kit.right(True)
    kit.leadership.removed("/", queue)
    callbacks[0]()
    assert kit.paused()


def test_turns_have_the_rights_checked() -> None:
    kit = Kit()
    kit.leadership.check()
    assert kit.rights.checks == 1
