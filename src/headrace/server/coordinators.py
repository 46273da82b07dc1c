"""The coordinators of one broker: made, and told of the partitions that come and go."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from headrace.broker.broker import Broker
from headrace.broker.coordinator.shard import World
from headrace.broker.groups.coordinators import GroupCoordinators
from headrace.broker.partition import Partition
from headrace.broker.share.service import ShareService
from headrace.broker.txn.coordinators import TransactionCoordinators
from headrace.broker.txn.participants import LocalParticipants
from headrace.broker.txn.shard import GiveProducerId
from headrace.cluster.controller import Controller
from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.broker.coordinator.led import LedShards

log = logging.getLogger(__name__)


class Coordinators:
    """Groups, share groups and transactions, while the broker runs."""

    def __init__(self, broker: Broker, controller: Controller) -> None:
        """Set the broker's coordinators, and follow what the broker leads."""
        self._broker = broker
        self._controller = controller
        self._tasks: set[asyncio.Task[None]] = set()
        self.groups = broker.groups = GroupCoordinators.of(broker)
        self.transactions = broker.transactions = TransactionCoordinators(
            world=World(broker.clock, broker.random, broker.disk),
            config=lambda: broker.config,
            image=lambda: broker.image,
            participants=LocalParticipants(broker),
            new_producer_id=self._new_producer_id,
        )
        self.share = broker.share = ShareService(broker)
        led: tuple[LedShards[Any], ...] = (
            self.groups.led, self.transactions.led, self.share.states.led,
        )  # fmt: skip
        self._led = {one.topic: one for one in led}
        broker.opened.append(self._opened)
        broker.closed.append(self._closed)

    def begin(self) -> None:
        """The cluster is joined, its topics are known."""
        self.transactions.begin()

    def close(self) -> None:
        """Whoever waits is told to look for another coordinator."""
        for task in self._tasks:
            task.cancel()
        self.transactions.close()
        self.share.close()
        self.groups.close()

    def _opened(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        shards = self._led.get(topic)
        if shards is not None:
            shards.lead(index, partition, partition.leader_epoch)

    def _closed(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        shards = self._led.get(topic)
        if shards is not None:
            shards.resign(index)
        elif partition.refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.groups.topic_deleted(topic)
        self.share.partition_closed(partition)

    def _new_producer_id(self, give: GiveProducerId) -> None:
        """At once out of the block at hand; a new block is asked of the metadata store."""
        taken = self._broker.producer_ids.take()
        if taken is not None:
            give(taken)
            return
        task = asyncio.get_running_loop().create_task(self._reserve(give))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reserve(self, give: GiveProducerId) -> None:
        try:
            given: int | ApiError = await self._controller.next_producer_id()
        except ApiError as error:
            given = error
        give(given)
