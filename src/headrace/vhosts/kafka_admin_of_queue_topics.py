"""Kafka clients' operations on topics of queues: create, delete and purge as AMQP does."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.posix.awaiting import called_back
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.parts.purging_queue import Purged
from headrace.queues.permissions.access import Permission
from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_of_topic, queue_topic
from headrace.queues.refusals import QUEUE, Refused
from headrace.vhosts.access import Admission
from headrace.vhosts.durable_queues import DurableQueues

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.security.identity import Identity

LOOK_SECONDS = 0.005
"""Seconds between two checks for messages that are being read from the disk."""
TO_END = -1


class QueuePurges:
    """Kafka's DeleteRecords on the topics of queues that this broker runs."""

    def __init__(
        self, broker: "Broker", virtual_hosts: "VirtualHosts", admission: Admission
    ) -> None:
        self._broker = broker
        self._virtual_hosts = virtual_hosts
        self._admission = admission

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Tell whether a user has the permission for queue.purge on the queue of a topic."""
        found = self._queue_of(topic)
        return found is not None and self._may_read(identity, found[0].name, found[1].name)

    def _may_read(self, identity: "Identity", vhost: str, queue: str) -> bool:
        try:
            self._admission.access(identity, vhost).check(Permission.READ, QUEUE, queue)
        except Refused:
            return False
        return True

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Settle ready messages below an offset (-1: all); return the log start offset.

        Raises ApiError. In a queue that retains settled messages these are deleted from the log,
        too, as the client of DeleteRecords expects.
        """
        found = self._queue_of(topic)
        if found is None:
            raise no_queue(topic)
        host, queue = found
        if queue.refused is not None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(queue.refused))
        log = self._broker.partition(topic, partition)
        if not TO_END < before <= log.high_watermark:
            await called_back(log.role.when_flushed)
        if queue.is_stream is True:
            start = log.delete_records(before)
            await called_back(self._broker.checkpoint)
            return start
        if not TO_END <= before <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        readable = log.readable_end(True)
        below = readable if before == TO_END else min(before, readable)
        await _counted(queue, partition, below)
        while (purged := queue.purge_below(partition, below)) is not Purged.ALL:
            if queue.deleted:
                raise no_queue(topic)
            await asyncio.sleep(LOOK_SECONDS if purged is Purged.BEING_READ else 0)
        host.touched([queue])
        if queue.settings.keeps_settled:
            await self._delete_settled(queue, log, below)
        return log.log.start_offset

    async def _delete_settled(self, queue: AnyQueue, log: "Partition", below: int) -> None:
        """Advance the log start offset to `below`, or to the first unsettled message below it.

        Raises ApiError if the queue or its log is gone.
        """
        (store,) = _stores_of(queue, log.topic_partition.partition)
        start = min(below, store.settled().below)
        store.write_settled()
        while store.settled().durably < start:
            if queue.deleted or log.refusal is not None or log.log.closed:
                raise no_queue(log.topic_partition.topic)
            await asyncio.sleep(LOOK_SECONDS)
        log.delete_records(start)
        await called_back(self._broker.checkpoint)

    def _queue_of(self, topic: str) -> "tuple[QueueHost, AnyQueue] | None":
        name = queue_of_topic(topic)
        for host in self._virtual_hosts.hosts.values():
            if name is not None and host.name != name.vhost:
                continue
            found = host.queues.values() if name is None else (host.queues.get(name.queue),)
            for queue in found:
                durable = queue is not None and queue.declared.durable
                if queue is not None and durable and queue_topic(host.name, queue.name) == topic:
                    return host, queue
        return None


class TopicsOfQueues(QueuePurges):
    """The topics of a single broker's queues. Implements `broker.topic_keepers.TopicKeeper`."""

    def __init__(
        self,
        broker: "Broker",
        durable: DurableQueues,
        virtual_hosts: "VirtualHosts",
        admission: Admission,
    ) -> None:
        super().__init__(broker, virtual_hosts, admission)
        self._durable = durable

    async def make(self, topic: str) -> ApiError | None:
        """Create the topic of a declared queue; return the error, None: the topic exists."""
        found = self._queue_of(topic)
        if found is not None:
            for store in _stores_of(found[1]):
                store.want_log()
                await self._durable.topic_made()
        return None if topic in self._broker.image.topics else no_queue(topic)

    async def delete(self, topic: str) -> ApiError | None:
        """Delete a topic with its queue, whose consumers are cancelled; return the error."""
        found = self._queue_of(topic)
        if found is None:
            return no_queue(topic)
        host, queue = found
        host.delete_queue(queue.name, None, if_unused=False, if_empty=False)
        self._virtual_hosts.turns.soon()
        try:
            await called_back(self._durable.when_kept)
        except HeadraceError as error:
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return None


async def _counted(queue: AnyQueue, priority: int, below: int) -> None:
    """Wait until the queue has counted all messages of Kafka producers below an offset."""
    stores = _stores_of(queue, priority)
    while True:
        known = queue.deleted or all(store.counted_to >= below for store in stores)
        await asyncio.sleep(0 if known else LOOK_SECONDS)
        if known:
            await asyncio.sleep(0)  # the queue is notified at the end of the event loop's turn
            return


def _stores_of(queue: AnyQueue, priority: int | None = None) -> Sequence[DurableMessages]:
    """Return the stores of a queue, or only the store of one priority."""
    stores = [store for store in queue.late_stores if isinstance(store, DurableMessages)]
    return [store for store in stores if priority is None or store.priority == priority]


def no_queue(topic: str) -> ApiError:
    """Return the error for a topic that no declared queue has."""
    if topic == DECLARATIONS_TOPIC:
        text = f"{topic} has the declarations of AMQP's exchanges, queues and bindings"
        return ApiError(ErrorCode.POLICY_VIOLATION, text)
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no queue is declared for {topic}")
