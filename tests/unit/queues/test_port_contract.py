"""Queues behind the port: the same contract, with messages in memory, on a log and in a stream."""

import pytest

from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.settlement_counts import Settled
from headrace.queues.port import QueueInfo
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.port_contract import PortContract, QueueContract
from tests.support.queues.port_place import PortPlace
from tests.support.queues.remote_pair import RemotePlace


class TestQueueInMemory(QueueContract):
    """A queue that is not durable."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return PortPlace(arguments, durable=False)


class TestQueueOnALog(QueueContract):
    """A durable queue, whose log is created with its first message."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return PortPlace(arguments, durable=True)

    def test_settlements_of_each_kind_are_durable_soon(self) -> None:
        here = self.place()
        here.consume()
        here.published("a", "b", "c")
        assert len(here.sent()) == 3
        here.channel.ack(1)
        here.channel.nack(2, requeue=False)
        here.wake(here.channel)
        here.settle()
        (store,) = here.leader.queues["q"].late_stores
        assert isinstance(store, DurableMessages)
        assert store.settled() == Settled(2, 2)


class TestStream(PortContract):
    """A stream, whose readers begin with its first message."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return PortPlace({"x-queue-type": "stream", **(arguments or {})}, durable=True)

    def test_each_reader_is_delivered_all_messages(self) -> None:
        here = self.place()
        here.published("a", "b")
        here.consume("c")
        here.consume("d", here.new_channel(2))
        assert sorted(here.sent()) == ["1:c:a", "1:d:a", "2:c:b", "2:d:b"]

    def test_requeued_message_is_not_delivered_again(self) -> None:
        here = self.place()
        here.consume()
        here.published("a")
        assert here.sent() == ["1:c:a"]
        here.channel.nack(1)
        here.wake(here.channel)
        assert here.sent() == []
        assert here.counts() == QueueInfo(1, 0, 0, 1)

    def test_get_purge_and_consumers_without_acks_are_refused(self) -> None:
        here = self.place()
        for refused in (here.get, here.purge, lambda: here.consume(no_ack=True)):
            with pytest.raises(Refused) as error:
                refused()
            assert error.value.kind is RefusalKind.UNSUPPORTED


class TestQueueOnAnotherBroker(QueueContract):
    """A queue in the memory of another broker."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return RemotePlace(arguments, durable=False)


class TestQueueOnALogOfAnotherBroker(QueueContract):
    """A durable queue that another broker leads."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return RemotePlace(arguments, durable=True)


class TestStreamOnAnotherBroker(PortContract):
    """A stream that another broker leads."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return RemotePlace({"x-queue-type": "stream", **(arguments or {})}, durable=True)


class TestQueueWhoseLeaderChanges(QueueContract):
    """A durable queue that several brokers may lead: publishes are record batches."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return MovingPlace(arguments)
