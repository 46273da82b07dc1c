"""The consumers of a channel by tag, and the memory limit of all clients' consumers."""

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSUMER_BYTES = 1024
"""Memory of a consumer in bytes, rounded up from 763 measured ones."""


class Tagged(Protocol):
    """A consumer with its tag. Implemented by `channel.ChannelConsumer`."""

    tag: str


T = TypeVar("T", bound=Tagged)


class HeldConsumers:
    """Counter of the consumers of all clients of a broker."""

    def __init__(self, bytes_max: int) -> None:
        self.count = 0
        self._bytes_max = bytes_max

    def check(self) -> None:
        """Raise ConnectionClosing RESOURCE_ERROR if there is no memory for another consumer."""
        if (self.count + 1) * CONSUMER_BYTES > self._bytes_max:
            raise ConnectionClosing(
                ReplyCode.RESOURCE_ERROR,
                f"{self.count} consumers of all clients take {self.count * CONSUMER_BYTES} bytes of"
                f" memory, and {self._bytes_max} are allowed (half of amqp.memory.bytes.max)",
            )


class ChannelConsumers(Generic[T]):
    """The consumers of a channel, by tag."""

    __slots__ = ("_by_tag", "_held")

    def __init__(self, held: HeldConsumers) -> None:
        """Create an empty table of consumers. `held` counts the consumers of all channels."""
        self._by_tag: dict[str, T] = {}
        self._held = held

    def __len__(self) -> int:
        return len(self._by_tag)

    def __contains__(self, tag: str) -> bool:
        return tag in self._by_tag

    def values(self) -> "Iterable[T]":
        """Return all consumers of the channel, the oldest first."""
        return self._by_tag.values()

    def add(self, consumer: T) -> None:
        """Add a consumer with a new tag to the channel."""
        self._by_tag[consumer.tag] = consumer
        self._held.count += 1

    def take(self, tag: str) -> T | None:
        """Remove the consumer of a tag and return it, or None if the tag is unknown."""
        consumer = self._by_tag.pop(tag, None)
        self._held.count -= consumer is not None
        return consumer

    def take_all(self) -> list[T]:
        """Remove all consumers of the channel and return them, the oldest first."""
        consumers, self._by_tag = list(self._by_tag.values()), {}
        self._held.count -= len(consumers)
        return consumers
