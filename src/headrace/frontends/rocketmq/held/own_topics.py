"""Kafka clients' changes of the topics below the reserved prefix.

A group's topics of retries and dead letters and the topic of traces are deleted and purged like
others. They are created again with the next message. The internal ones hold messages that were
answered, so neither is allowed.
"""

from typing import TYPE_CHECKING

from headrace.log.directory.holds import WantsNothing
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.wire.rocketmq.topic_names import RESERVED_PREFIX, rocketmq_name

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.controller_port import ControllerPort
    from headrace.security.identity import Identity


class OwnTopics:
    """The protocol's own topics. Implements `broker.topic_keepers.TopicKeeper`."""

    def __init__(self, broker: "Broker", controller: "ControllerPort") -> None:
        self._broker = broker
        self._controller = controller

    async def make(self, topic: str) -> ApiError | None:
        """Return the error for a topic that does not exist: the broker creates it at need."""
        if topic in self._broker.image.topics:
            return None
        text = f"{topic} is created with its first message"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)

    async def delete(self, topic: str) -> ApiError | None:
        """Delete a topic that is not internal; return the error."""
        refusal = _refusal(topic)
        if refusal is not None:
            return refusal
        return (await self._controller.delete_topics([topic]))[topic]

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Return False: the topic's ACLs decide."""
        return False

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Remove records below an offset, -1: all; return the log start offset.

        Raises ApiError.
        """
        refusal = _refusal(topic)
        if refusal is not None:
            raise refusal
        start = self._broker.partition(topic, partition).delete_records(before)
        await called_back(self._broker.checkpoint)
        return start


def hold_nothing(broker: "Broker") -> None:
    """Have retention and compaction treat the protocol's own topics as they do any other."""
    holder = WantsNothing()

    def closed(partition: "Partition") -> None:
        partition.log.context.holds.remove(partition.topic_partition, holder)

    def opened(partition: "Partition") -> None:
        if partition.topic_partition.topic.startswith(RESERVED_PREFIX):
            closed(partition)  # it may be opened more than once
            partition.log.context.holds.add(partition.topic_partition, holder)

    broker.opened.append(opened)
    broker.closed.append(closed)


def _refusal(topic: str) -> ApiError | None:
    """Return why an internal topic may not be changed; None: clients of RocketMQ's can name it."""
    if rocketmq_name(topic) is not None:
        return None
    text = f"{topic} has delayed messages or messages of transactions, which would be lost"
    return ApiError(ErrorCode.POLICY_VIOLATION, text)
