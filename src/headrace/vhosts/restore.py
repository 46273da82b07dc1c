"""Restore of durable declarations and queues when the broker starts, before clients connect."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError
from headrace.posix.awaiting import called_back
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.settled_files import settled_path
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.declaration_table import apply
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.stored_model import BindingRecord, QueueRecord, Record
from headrace.queues.queue_names import is_queue_topic, queue_topic
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.takeover import DeclarationNodes, take_over
from headrace.vhosts.durable_queues import DurableQueues

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.ports.disk import Disk
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.vhosts.policies.visits import PolicyVisits

_logger = logging.getLogger(__name__)

QUEUES_AT_ONCE = 100
"""Queues whose settled positions one thread reads."""
GROUPS_AT_ONCE = 4
"""Threads that read settled positions at the same time."""

T = TypeVar("T")


class Restoring:
    """Restores stored declarations and messages into the vhosts of a starting broker."""

    def __init__(
        self,
        broker: "Broker",
        durable: DurableQueues,
        virtual_hosts: "VirtualHosts",
        declarations: DeclarationLog,
        nodes: DeclarationNodes,
        visits: "PolicyVisits",
    ) -> None:
        """`visits` give queues the settings of their policies.

        `nodes`: those of earlier versions in the metadata store, which are taken over.
        """
        self._broker = broker
        self._durable = durable
        self._virtual_hosts = virtual_hosts
        self._declarations = declarations
        self._nodes = nodes
        self._visits = visits

    async def restore(self) -> None:
        """Restore exchanges, queues and bindings, with the messages of queues.

        Topics of queues that are not declared are deleted, but only if all declarations could be
        read, and if there ever were any: a topic is created after its queue's declaration.

        Raises ConfigError, StoreError and ApiError.
        """
        stored = await take_over(self._nodes, self._declarations, await self._declarations.load())
        self._durable.know(stored.records)
        by_vhost: dict[str, list[Record]] = {}
        for vhost, record in stored.records.values():
            by_vhost.setdefault(vhost, []).append(record)
        hosts = self._virtual_hosts.hosts
        for vhost, records in by_vhost.items():
            host = hosts.get(vhost) or self._virtual_hosts.add(vhost)
            self._declare(host, records)
            self._forget_readers(host)
            self._visits.load(host)
            queues = [queue for queue in host.model.queues.values() if queue.durable]
            await _in_groups(queues, QUEUES_AT_ONCE, partial(self._load, host))
        if stored.all_read and not stored.is_empty:
            topics = _topics(by_vhost)
            self._durable.doom(
                topic
                for topic in self._broker.image.topics
                if is_queue_topic(topic) and topic not in topics
            )

    def _declare(self, host: QueueHost, records: Sequence[Record]) -> None:
        """Declare records in a vhost's model, each on its own; bindings come last."""
        bindings = [record for record in records if isinstance(record, BindingRecord)]
        for record in records:
            if isinstance(record, BindingRecord):
                continue
            try:
                apply(host.model.table, record)
            except (HeadraceError, ValueError) as error:
                _logger.error(
                    "the declaration of %r (vhost %r) is not restored: %s. Messages of a queue stay"
                    " on disk", record.name, host.name, error,
                )  # fmt: skip
        for binding in bindings:
            apply(host.model.table, binding)

    def _forget_readers(self, host: QueueHost) -> None:
        """Delete streams whose topics were deleted while AMQP was not served."""
        for name, read in list(host.model.router.read_topics.items()):
            if read.topic not in self._broker.image.topics:
                _logger.warning(
                    "stream %r (vhost %r) is deleted: the Kafka topic %r that it reads does not"
                    " exist. Create the topic and declare the stream again",
                    name, host.name, read.topic,
                )  # fmt: skip
                host.model.remove_queue(name)

    async def _load(self, host: QueueHost, queues: Sequence[DeclaredQueue]) -> None:
        """Open queues with the messages that their topics hold."""
        by_queue = [(queue, self._stores(host, queue)) for queue in queues]
        stores = [store for _, found in by_queue for store in found.values()]
        partitions = [self._partition(messages) for messages in stores]
        settled = await self._read_settled(partitions)
        await asyncio.gather(*map(self._open, stores, partitions, settled))
        for queue, found in by_queue:
            host.host(queue, found)

    def _stores(self, host: QueueHost, queue: DeclaredQueue) -> dict[int, DurableMessages]:
        """Return a queue's message stores by priority, one for each partition of its topic."""
        info = self._broker.image.topics.get(queue_topic(host.name, queue.name))
        count = 0 if info is None else len(info.partitions)
        make = self._durable.make_store
        return {priority: make(host.name, queue, priority) for priority in range(count)}

    def _partition(self, messages: DurableMessages) -> "Partition | HeadraceError":
        topic = queue_topic(messages.vhost, messages.queue.name)
        return self._durable.of_queues.partition(topic, messages.priority)

    async def _read_settled(
        self, partitions: Sequence["Partition | HeadraceError"]
    ) -> Sequence[bytes | None]:
        """Read the settled positions of partitions on a thread; None for an unreadable file."""
        disk = self._broker.disk

        def read() -> list[bytes | None]:
            return [_settled_of(disk, partition) for partition in partitions]

        return await called_back(partial(disk.run, read))

    async def _open(
        self,
        messages: DurableMessages,
        partition: "Partition | HeadraceError",
        settled: bytes | None,
    ) -> None:
        if isinstance(partition, HeadraceError):
            error: HeadraceError | None = partition
            messages.failed(partition)
        else:
            error = await _opened(messages, partition, settled)
        if error is not None:
            _logger.error(
                "queue %r (vhost %r) is unavailable, its log cannot be opened: %s. Repair or"
                " restore the log, then restart the broker",
                messages.queue.name, messages.vhost, error,
            )  # fmt: skip


async def _opened(
    messages: DurableMessages, partition: "Partition", settled: bytes | None
) -> HeadraceError | None:
    """Open a queue's log; return the error, or None once it is open."""
    try:
        return await called_back(lambda done: messages.open(partition, done, settled))
    except HeadraceError as error:
        return error


def _settled_of(disk: "Disk", partition: "Partition | HeadraceError") -> bytes | None:
    """Return a partition's file of settled positions; None: unreadable, the loader reports it."""
    if isinstance(partition, HeadraceError):
        return None
    try:
        return read_file(disk, settled_path(partition.log.directory)) or b""
    except OSError:
        return None


async def _in_groups(
    items: Sequence[T], size: int, work: Callable[[Sequence[T]], Awaitable[None]]
) -> None:
    """Call `work` with `size` items each, for `GROUPS_AT_ONCE` groups at the same time."""
    groups = [items[at : at + size] for at in range(0, len(items), size)]
    for at in range(0, len(groups), GROUPS_AT_ONCE):
        await asyncio.gather(*map(work, groups[at : at + GROUPS_AT_ONCE]))


def _topics(records: dict[str, list[Record]]) -> set[str]:
    return {
        queue_topic(vhost, record.name)
        for vhost, of_vhost in records.items()
        for record in of_vhost
        if isinstance(record, QueueRecord)
    }
