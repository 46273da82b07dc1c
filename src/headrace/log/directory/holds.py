"""Who still wants which records of a partition: what is held is neither deleted nor compacted."""

from typing import TYPE_CHECKING, Protocol

from headrace.model.nouns import Offset, TopicPartition
from headrace.model.protocols import reserved_topics

if TYPE_CHECKING:
    from collections.abc import Callable


class Holder(Protocol):
    """Somebody who wants records of a partition. Asked each time."""

    def first(self) -> Offset | None:
        """Return the first offset that he still wants; None: he wants nothing."""

    def wants(self, first: Offset, below: Offset) -> bool:
        """Tell whether he wants any offset from `first` on and below `below`."""


class WantsNothing:
    """A holder who lets retention take what it will. `Holder`."""

    def first(self) -> Offset | None:
        """Return that he wants nothing."""
        return None

    def wants(self, first: Offset, below: Offset) -> bool:
        """Tell that he does not."""
        return False


_START = Offset(0)


def _is_reserved(partition: TopicPartition) -> bool:
    """Return whether only another protocol than Kafka's knows what of it is still to be read."""
    return reserved_topics(partition.topic) is not None


class Holds:
    """The holders of one directory's partitions. On the deciding thread."""

    __slots__ = ("_holders", "holds_all")

    def __init__(self) -> None:
        self._holders: dict[TopicPartition, list[Holder]] = {}
        self.holds_all: Callable[[TopicPartition], bool] = _is_reserved
        """Whether all of a partition is held while it has no holder: a queue's, whose cursor is not
        loaded yet, or never is because nobody may ask for it."""

    def add(self, partition: TopicPartition, holder: Holder) -> None:
        """Have `holder` asked of `partition` until it is removed."""
        self._holders.setdefault(partition, []).append(holder)

    def remove(self, partition: TopicPartition, holder: Holder) -> None:
        """Ask `holder` no more; nothing where it was not added."""
        holders = self._holders.get(partition)
        if holders is not None and holder in holders:
            holders.remove(holder)
            if not holders:
                del self._holders[partition]

    def first(self, partition: TopicPartition) -> Offset | None:
        """Return the first offset that anybody still wants; None where nobody wants any."""
        holders = self._holders.get(partition)
        if holders is None:
            return _START if self.holds_all(partition) else None
        wanted = [offset for holder in holders if (offset := holder.first()) is not None]
        return min(wanted, default=None)

    def wants(self, partition: TopicPartition, first: Offset, below: Offset) -> bool:
        """Tell whether anybody still wants an offset from `first` on and below `below`."""
        holders = self._holders.get(partition)
        if holders is None:
            return self.holds_all(partition)
        return any(holder.wants(first, below) for holder in holders)
