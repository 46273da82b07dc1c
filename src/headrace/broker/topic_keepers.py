"""The protocols that keep data in topics, and do to it what Kafka's clients ask of the topics."""

from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocol_row import ReservedTopics
from headrace.model.protocols import reserved_topics

if TYPE_CHECKING:
    from headrace.security.identity import Identity


class TopicKeeper(Protocol):
    """A protocol's part that does to its topics what Kafka's clients ask."""

    async def make(self, topic: str) -> ApiError | None:
        """Make the topic of a declared owner where it has none yet; why not, else None."""

    async def delete(self, topic: str) -> ApiError | None:
        """Delete the owner of a topic, as its own protocol does; why not, else None."""

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Return whether `identity` may purge a topic by its protocol's own permissions."""

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Remove what is below an offset, -1: all; returns where the log starts.

        Raises ApiError.
        """


class TopicKeepers:
    """The topic keepers of a broker, one for each protocol that a listener speaks. On the loop."""

    def __init__(self) -> None:
        self._keepers: dict[str, TopicKeeper] = {}

    def add(self, reserved: ReservedTopics, keeper: TopicKeeper) -> None:
        """Have `keeper` asked about the topics of its protocol."""
        self._keepers[reserved.prefix] = keeper

    def of(self, topic: str) -> TopicKeeper | None:
        """Return the keeper of a topic reserved by another protocol; None: the topic is Kafka's."""
        reserved = reserved_topics(topic)
        if reserved is None:
            return None
        return self._keepers.get(reserved.prefix) or _NotServed(reserved)


class _NotServed:
    """The keeper of a protocol that no listener speaks: it refuses all changes of topics.

    Implements `TopicKeeper`.
    """

    def __init__(self, reserved: ReservedTopics) -> None:
        self._reserved = reserved

    async def make(self, topic: str) -> ApiError | None:
        """Return the error for a topic whose protocol has no listener: nothing is created."""
        text = f"{topic} is reserved for {self._reserved.kept_for}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)

    async def delete(self, topic: str) -> ApiError | None:
        """Return the error for a topic whose protocol has no listener: nothing is deleted."""
        return self._refusal(topic)

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Return False: the protocol's permissions are not known here."""
        return False

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Raise ApiError: no listener speaks the topic's protocol."""
        raise self._refusal(topic)

    def _refusal(self, topic: str) -> ApiError:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{topic} is reserved for {self._reserved.kept_for}, and this broker has no"
            f" {self._reserved.protocol} listener: start it with one",
        )
