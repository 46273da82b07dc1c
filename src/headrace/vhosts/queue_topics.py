"""`QueueTopics`: the Kafka topics of durable queues and streams, and the stores of their messages.

A queue's topic has one partition for each priority, and the configuration of `topic_config`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.cluster.controller_port import ControllerPort
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.queue_stores.log.copies_port import CopiedFiles
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import LateStore, TopicStore
from headrace.queue_stores.queue_settings import QueueSettings, QueueType, StoredQueue
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.queue_names import is_queue_topic, queue_of_topic, queue_topic
from headrace.vhosts.exchange_topics import ExchangeTopics

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts

_logger = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * 1024 * 1024
"""Segment size of a queue's log in bytes: settled messages are deleted by whole segments."""
RECORD_BYTES_MAX = 20 * 1024 * 1024
"""Largest record of a queue in bytes: the largest message with its properties."""
_SEGMENT_BYTES_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1

_TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
}


def declared_queue(
    virtual_hosts: "VirtualHosts", topic: str
) -> "tuple[QueueHost, DeclaredQueue] | None":
    """Return the declared queue of a topic with its vhost; None: no declared queue has it."""
    if not is_queue_topic(topic):
        return None
    name = queue_of_topic(topic)
    for host in virtual_hosts.hosts.values():
        if name is not None and name.vhost != host.name:
            continue
        queues = host.model.queues
        if name is not None:
            queue = queues.get(name.queue)
            return None if queue is None else (host, queue)
        for queue in queues.values():  # the topic's name is a hash
            if queue_topic(host.name, queue.name) == topic:
                return host, queue
    return None


def topic_config(settings: QueueSettings) -> Mapping[str, str]:
    """Return the topic configuration of a queue.

    Streams and queues that retain settled messages have the retention they were declared with;
    others retain messages until they are settled.
    """
    if settings.queue_type is not QueueType.STREAM and not settings.keeps_settled:
        return _TOPIC_CONFIG
    retained_ms, retained_bytes = settings.retention_ms, settings.retention_bytes
    return {
        **_TOPIC_CONFIG,
        # As in RabbitMQ, consumers' start times and retention go by the time of arrival.
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": _limited(retained_ms),
        # 0 would also delete the newest records.
        "retention.bytes": _limited(None if retained_bytes is None else max(retained_bytes, 1)),
        "segment.bytes": str(_segment_bytes(settings.segment_bytes_max)),
    }


def _limited(asked: int | None) -> str:
    """Return a bound as a Kafka setting; None is written as -1, without a bound."""
    return "-1" if asked is None else str(min(asked, _LONG_MAX))


def _segment_bytes(asked: int | None) -> int:
    """Return a stream's segment size in bytes, at least the size of the largest record."""
    if asked is None:
        return SEGMENT_BYTES
    return min(max(asked, RECORD_BYTES_MAX), _SEGMENT_BYTES_MAX)


def new_topic(name: str, settings: QueueSettings, replicas: Sequence[int]) -> NewTopic:
    """Return the topic of a queue with these settings, each partition of it on `replicas`.

    With several replicas its writes need a majority of them, and a leader has all that is
    committed.
    """
    partitions = range((settings.priority_max or 0) + 1)
    config = dict(topic_config(settings))
    if len(replicas) > 1:
        config["min.insync.replicas"] = str(len(replicas) // 2 + 1)
        config["unclean.leader.election.enable"] = "false"
    return NewTopic(name, assignment=dict.fromkeys(partitions, tuple(replicas)), config=config)


class QueueTopics:
    """The topics of one broker's queues and exchanges. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        controller: ControllerPort,
        wanted: Callable[[DurableMessages], None],
        memory: MemoryUse | None = None,
        copied: CopiedFiles | None = None,
    ) -> None:
        """Create without stores. `wanted` is called with a store that needs its queue's topic.

        `memory` counts the messages that wait for their queues' logs. `copied`: the files of
        settled positions that a cluster's brokers copy; None: the broker has no cluster.
        """
        files = SettledFiles(broker.disk, broker.clock) if copied is None else copied.files
        copies = None if copied is None else copied.copying
        self.logs = QueueLogs(files, broker.clock, wanted, memory, copies)
        self.of_exchanges = ExchangeTopics(broker, controller, self.logs)
        self._broker = broker
        self._controller = controller

    # Stores

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        """Make the message store of one priority of a durable queue. As `Durability`."""
        read = queue.settings.topic
        if read is not None:
            partition = self.partition(read.topic, priority)
            return DurableStream.of_topic(self.logs, vhost, queue, priority, partition)
        is_stream = queue.settings.queue_type is QueueType.STREAM
        kind = DurableStream if is_stream else DurableMessages
        return kind(self.logs, vhost, queue, priority)

    def topic_store(self, topic: str) -> TopicStore:
        """Return the store of messages that exchanges store in a topic. As `Durability`."""
        return self.of_exchanges.writer(topic)

    def partition(self, topic: str, priority: int) -> "Partition | HeadraceError":
        """Return the partition of a queue's priority; the error if it is not led here."""
        try:
            return self._broker.partition(topic, priority)
        except ApiError as error:
            return error

    async def close(self, stores: Sequence[LateStore]) -> None:
        """Close `stores`, the message stores of all queues."""
        await asyncio.gather(*(_closed(messages) for messages in stores))

    # Topics of a single broker

    async def create(self, queues: Mapping[str, StoredQueue]) -> dict[str, ApiError]:
        """Create the missing topics of queues, by topic, with this broker as their only replica.

        Return the errors of those that could not be created.
        """
        missing = [topic for topic in queues if topic not in self._broker.image.topics]
        if not missing:
            return {}
        own = (self._broker.broker_id,)
        new = [new_topic(topic, queues[topic].settings, own) for topic in missing]
        try:
            outcome = await self._controller.create_topics(new)
        except ApiError as error:
            return dict.fromkeys(missing, error)
        return {
            topic: made
            for topic, made in zip(missing, outcome, strict=True)
            if isinstance(made, ApiError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    async def delete(self, topics: Sequence[str]) -> None:
        """Delete the topics of deleted queues; errors are logged."""
        there = [topic for topic in topics if topic in self._broker.image.topics]
        if not there:
            return
        for topic, error in (await self._controller.delete_topics(there)).items():
            if error is not None:
                _logger.error(
                    "topic %s of a deleted queue could not be deleted; the next start retries: %s",
                    topic,
                    error,
                )


async def _closed(store: LateStore) -> None:
    def close(done: Done[None]) -> None:
        store.close(lambda: done(None))

    await called_back(close)
