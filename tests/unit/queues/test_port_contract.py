"""Queues behind the port: the same contract, with messages in memory and on a log."""

from headrace.queues.stores.log.durable_messages import DurableMessages
from headrace.queues.stores.log.log_messages import Settled
from tests.support.queues.port_contract import PortContract, PortPlace


class TestQueueInMemory(PortContract):
    """A queue that is not durable."""

    def place(self, arguments: dict[str, object] | None = None) -> PortPlace:
        return PortPlace(arguments, durable=False)


class TestQueueOnALog(PortContract):
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
        (store,) = here.queue.late_stores
        assert isinstance(store, DurableMessages)
        assert store.settled() == Settled(2, 2)
