"""Whom a broker asks until somebody is set: nobody."""

from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.security.identity import Identity


class QueueTopics(Protocol):
    """Does to AMQP queues what Kafka's clients ask of their topics."""

    async def make(self, topic: str) -> ApiError | None:
        """Make the topic of a declared queue where it has none yet; why not, else None."""

    async def delete(self, topic: str) -> ApiError | None:
        """Delete the queue of a topic, as queue.delete does; why not, else None."""

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Tell whether somebody may purge the queue of a topic by AMQP's permissions."""

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Settle what is ready below an offset, -1: all; returns where the log starts. ApiError."""


class NoQueues:
    """Nobody serves AMQP here: all queues stay as they are. `QueueTopics`."""

    async def make(self, topic: str) -> ApiError | None:
        """Refuse it."""
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is kept for an AMQP queue")

    async def delete(self, topic: str) -> ApiError | None:
        """Refuse it."""
        return _not_served(topic)

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Know of no permissions."""
        return False

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Refuse it."""
        raise _not_served(topic)


def _not_served(topic: str) -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{topic} is kept for an AMQP queue, and this broker has no listener of AMQP: start it with"
        " one",
    )


def ask_nobody(partition: "Partition") -> None:
    """Do nothing: there is no controller to ask."""
