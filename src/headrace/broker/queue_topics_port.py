"""`QueueTopics`: requests on the topics of AMQP queues; `NoQueues` refuses them.

Brokers use `NoQueues` until an AMQP listener is set up.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.security.identity import Identity


class QueueTopics(Protocol):
    """Performs Kafka clients' requests on AMQP queues' topics."""

    async def make(self, topic: str) -> ApiError | None:
        """Create the topic of a declared queue if it has none; return the error, or None."""

    async def delete(self, topic: str) -> ApiError | None:
        """Delete the queue of a topic, as queue.delete does; return the error, or None."""

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Return whether AMQP permissions allow this identity to purge the topic's queue."""

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Remove ready messages below an offset (-1: all); return the log's start. Raises
        ApiError."""


class NoQueues:
    """The `QueueTopics` of a broker without AMQP: requests on queue topics are refused."""

    async def make(self, topic: str) -> ApiError | None:
        """Return UNKNOWN_TOPIC_OR_PARTITION: no topic is created for a queue."""
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is reserved for an AMQP queue"
        )

    async def delete(self, topic: str) -> ApiError | None:
        """Return POLICY_VIOLATION: no queue is deleted."""
        return _not_served(topic)

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Return False, as no AMQP permissions are known."""
        return False

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Raise POLICY_VIOLATION: no queue is purged."""
        raise _not_served(topic)


def _not_served(topic: str) -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{topic} is reserved for an AMQP queue, and this broker has no AMQP listener: start it"
        " with one",
    )


def ask_nobody(partition: "Partition") -> None:
    """Do nothing: no controller changes the ISR."""
