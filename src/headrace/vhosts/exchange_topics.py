"""The Kafka topics that exchanges store messages in and streams read: found, created, refused."""

import asyncio
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.queues.model.exchange_topic import TopicReady
from headrace.queues.model.routing import StoredRoute
from headrace.queues.permissions.access import Access, Permission
from headrace.queues.refusals import (
    KAFKA_TOPIC,
    RefusalKind,
    Refused,
    malformed_message,
    not_found,
    precondition_failed,
)
from headrace.vhosts.topic_writer import TopicWriter

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.controller_port import ControllerPort
    from headrace.queue_stores.log.queue_logs import QueueLogs
    from headrace.queues.engine.targets import Targets
    from headrace.vhosts.remote_partition import RemotePartition
    from headrace.vhosts.remote_partitions import RemotePartitions
    from headrace.wire.amqp.content import Message

WRITERS_KEPT_MAX = 1024
"""Topic writers in memory at most; above, those without pending writes are dropped."""


class ExchangeTopics:
    """The broker's topics. `model.exchange_topic.KafkaTopics`, `messages.topic_writer.Topics`."""

    def __init__(self, broker: "Broker", controller: "ControllerPort", logs: "QueueLogs") -> None:
        self._broker = broker
        self._controller = controller
        self._logs = logs
        self._writers: dict[str, TopicWriter] = {}
        self._making: set[asyncio.Task[None]] = set()
        self.elsewhere: RemotePartitions | None = None
        """Partitions that other brokers lead; None: there is no other broker."""

    def partition(self, topic: str, index: int) -> "Partition | RemotePartition":
        """Return a partition; raise ApiError if it is not led here, and is not found elsewhere."""
        try:
            return self._broker.partition(topic, index)
        except ApiError as error:
            if self.elsewhere is None or error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
        return self.elsewhere.partition(topic, index)

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0: no such topic exists."""
        info = self._broker.image.topics.get(topic)
        return 0 if info is None else len(info.partitions)

    def writer(self, topic: str) -> TopicWriter:
        """Return the writer that stores messages in a topic."""
        writer = self._writers.get(topic)
        if writer is None:
            if len(self._writers) >= WRITERS_KEPT_MAX:
                self._writers = {name: kept for name, kept in self._writers.items() if kept.is_busy}
            broker = self._broker
            writer = TopicWriter(topic, self, broker.disk, broker.clock, self._logs.appended.append)
            self._writers[topic] = writer
        return writer

    # Declarations

    def check(self, topic: str, resource: str, access: Access) -> None:
        """Raise Refused if a topic does not exist and cannot be created automatically."""
        if topic in self._broker.image.topics:
            return
        if not self._broker.config.auto_create_topics_enable:
            raise Refused(
                RefusalKind.NOT_FOUND,
                KAFKA_TOPIC,
                f"no {KAFKA_TOPIC} '{topic}' for {resource}: create it first, for"
                " auto.create.topics.enable is false",
            )
        access.check(Permission.CONFIGURE, KAFKA_TOPIC, topic)

    def check_read(self, topic: str, resource: str) -> None:
        """Raise Refused if a topic does not exist or has several partitions."""
        count = self.partition_count(topic)
        if not count:
            raise not_found(KAFKA_TOPIC, f"{KAFKA_TOPIC} '{topic}' for {resource}: create it first")
        if count > 1:
            raise precondition_failed(
                f"{KAFKA_TOPIC} '{topic}' for {resource} has {count} partitions, and a stream reads"
                " a topic of one: consume it with a client of Kafka's"
            )

    def make(self, topic: str, done: TopicReady) -> None:
        """Create a topic if missing; `done` takes None or the error, now or later."""
        if topic in self._broker.image.topics:
            done(None)
            return
        task = asyncio.get_running_loop().create_task(self._make(topic, done))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def _make(self, topic: str, done: TopicReady) -> None:
        try:
            outcome = await self._controller.auto_create([topic])
        except ApiError as error:
            done(error)
        else:
            done(outcome[topic])


# Publishes


def check_stored(
    targets: "Targets", access: Access, route: StoredRoute, message: "Message"
) -> None:
    """Raise Refused if a message may not, or cannot, be stored in a topic of its route.

    Called before any target accepts the message; later failures become a nack.
    """
    for name in route.topics:
        target = targets.topic(name)
        stored, store = target.stored, target.store
        access.check(Permission.WRITE, KAFKA_TOPIC, stored.topic)
        try:
            store.check(message, stored.key_header)
        except ApiError as error:
            refused = _refused(stored.topic, error)
            if refused is not None:
                raise refused from None
        except Malformed as malformed:
            raise malformed_message(malformed) from None


def _refused(topic: str, error: ApiError) -> Refused | None:
    """Return the publisher's error for a permanent refusal; None: it may pass, so a nack."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return not_found(
            KAFKA_TOPIC,
            f"{KAFKA_TOPIC} '{topic}', in which the exchange stores its messages: create it again,"
            " or delete the exchange",
        )
    if error.code is ErrorCode.MESSAGE_TOO_LARGE:
        return precondition_failed(
            f"message too large for {KAFKA_TOPIC} '{topic}': {error.message} by max.message.bytes"
        )
    if error.code is ErrorCode.INVALID_RECORD:
        return precondition_failed(
            f"message without a key for {KAFKA_TOPIC} '{topic}', which is compacted: publish with a"
            " routing key, or with the header that x-headrace-key-header names"
        )
    return None
