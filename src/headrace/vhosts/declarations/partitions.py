"""`DeclarationPartitions`: the replicas of the log of declarations that a broker has."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.log.directory.holds import WantsNothing
from headrace.queues.queue_names import DECLARATIONS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.config.broker import BrokerConfig


class DeclarationPartitions:
    """The partitions of the log that the broker leads; records of its replicas may be compacted.

    Declarations are flushed before they are answered, whatever log.flush.on.ack is.
    """

    def __init__(
        self,
        broker: "Broker",
        opened: "Callable[[int, Partition], None]",
        closed: Callable[[int], None],
    ) -> None:
        """Create before the broker leads or follows a partition.

        `opened` is called with each partition that the broker leads, and again for a later leader
        epoch; `closed` with the index of each that it leads no longer.
        """
        self._led: dict[int, Partition] = {}
        self._held: dict[int, Partition] = {}
        self._holder = WantsNothing()
        self._tell_opened = opened
        self._tell_closed = closed
        broker.opened.append(self._opened)
        broker.closed.append(self._closed)
        broker.follows.append(self._followed)
        broker.unfollowed.append(self._unfollowed)
        broker.reconfigured.append(self._reconfigured)

    def at(self, index: int) -> "Partition | None":
        """Return a partition that the broker leads; None: it does not lead it."""
        return self._led.get(index)

    def _opened(self, partition: "Partition") -> None:
        index = self._index(partition)
        if index is None:
            return
        self._hold(index, partition)
        self._led[index] = partition
        self._flush(partition)
        self._tell_opened(index, partition)

    def _closed(self, partition: "Partition") -> None:
        index = self._index(partition)
        if index is not None:
            self._led.pop(index, None)
            self._let_go(index)
            self._tell_closed(index)

    def _followed(self, partition: "Partition") -> None:
        index = self._index(partition)
        if index is not None:
            self._hold(index, partition)

    def _unfollowed(self, partition: "Partition") -> None:
        index = self._index(partition)
        if index is not None and index not in self._led:
            self._let_go(index)

    def _hold(self, index: int, partition: "Partition") -> None:
        self._let_go(index)
        self._held[index] = partition
        partition.log.context.holds.add(partition.topic_partition, self._holder)

    def _let_go(self, index: int) -> None:
        partition = self._held.pop(index, None)
        if partition is not None:
            partition.log.context.holds.remove(partition.topic_partition, self._holder)

    def _index(self, partition: "Partition") -> int | None:
        topic, index = partition.topic_partition
        return index if topic == DECLARATIONS_TOPIC else None

    def _reconfigured(self, config: "BrokerConfig") -> None:
        for partition in self._led.values():
            self._flush(partition)

    def _flush(self, partition: "Partition") -> None:
        if not partition.role.flushes_on_ack:
            partition.role.flush_on_ack(True)
