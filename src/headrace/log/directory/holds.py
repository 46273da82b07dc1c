"""`Holds`: records of a partition that must not be deleted or compacted yet, by holder."""

from typing import TYPE_CHECKING, Protocol

from headrace.model.nouns import Offset, TopicPartition
from headrace.model.protocols import reserved_topics

if TYPE_CHECKING:
    from collections.abc import Callable


class Holder(Protocol):
    """A component that still needs records of a partition, such as a queue. Asked at each
    deletion."""

    def first(self) -> Offset | None:
        """Return the first offset that the holder still needs, or None if it needs none."""

    def wants(self, first: Offset, below: Offset) -> bool:
        """Return whether the holder needs any offset in [first, below)."""


class WantsNothing:
    """A `Holder` that needs no records."""

    def first(self) -> Offset | None:
        """Return None: no offset is needed."""
        return None

    def wants(self, first: Offset, below: Offset) -> bool:
        """Return False: no offset is needed."""
        return False


_START = Offset(0)


def _is_reserved(partition: TopicPartition) -> bool:
    """Return whether the partition's topic is reserved by another protocol, such as AMQP.

    Only a holder knows which of its records are needed.
    """
    return reserved_topics(partition.topic) is not None


class Holds:
    """The holders of one log directory's partitions. For the deciding thread."""

    __slots__ = ("_holders", "holds_all")

    def __init__(self) -> None:
        self._holders: dict[TopicPartition, list[Holder]] = {}
        self.holds_all: Callable[[TopicPartition], bool] = _is_reserved
        """Returns whether all records of a partition without a holder are held.

        True for another protocol's data: its holder is not loaded yet, or never is as no client may
        use it.
        """

    def add(self, partition: TopicPartition, holder: Holder) -> None:
        """Ask `holder` before records of `partition` are deleted, until `remove`."""
        self._holders.setdefault(partition, []).append(holder)

    def remove(self, partition: TopicPartition, holder: Holder) -> None:
        """Stop asking `holder`; no effect if it was not added."""
        holders = self._holders.get(partition)
        if holders is not None and holder in holders:
            holders.remove(holder)
            if not holders:
                del self._holders[partition]

    def first(self, partition: TopicPartition) -> Offset | None:
        """Return the first offset that any holder needs, or None if none is needed."""
        holders = self._holders.get(partition)
        if holders is None:
            return _START if self.holds_all(partition) else None
        wanted = [offset for holder in holders if (offset := holder.first()) is not None]
        return min(wanted, default=None)

    def wants(self, partition: TopicPartition, first: Offset, below: Offset) -> bool:
        """Return whether any holder needs an offset in [first, below)."""
        holders = self._holders.get(partition)
        if holders is None:
            return self.holds_all(partition)
        return any(holder.wants(first, below) for holder in holders)
