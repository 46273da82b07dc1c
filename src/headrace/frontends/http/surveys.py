"""Metrics that need all partitions, or all offsets that groups have committed.

With ten thousand partitions a full pass takes tens of milliseconds: it is made in slices, between
which the event loop runs (`Metrics.surveys`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.metadata_image import NO_LEADER
from headrace.model.nouns import OFFSETS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.coordination.coordinators import Coordinators
    from headrace.coordination.groups.committed_offsets import ByTopic

T = TypeVar("T")
SLICE_PARTITIONS = 200
"""Partitions surveyed between two turns of the loop, a third of a millisecond."""


class ReplicaSurvey:
    """State of the replicas led and followed on this broker, and of the cluster's partitions."""

    def __init__(self, broker: "Broker") -> None:
        """Start with zeros: nothing is known before the first survey."""
        self._broker = broker
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.offline = 0
        self.followers_lag_max = 0
        self.replica_lag_max = 0

    def slices(self) -> Iterator[None]:
        """Survey all partitions in steps of one slice; all metrics change at the last step."""
        found = ReplicaSurvey(self._broker)
        for partition in sliced(self._broker.partitions.values()):
            if partition is None:
                yield
            else:
                found._add_led(partition)
        for partition in sliced(self._broker.followed.values()):
            if partition is None:
                yield
            else:
                found.replica_lag_max = max(found.replica_lag_max, _lag(partition))
        looked = 0
        for topic in list(self._broker.image.topics.values()):
            found.offline += sum(there.leader == NO_LEADER for there in topic.partitions)
            looked += len(topic.partitions)
            if looked >= SLICE_PARTITIONS:
                looked = 0
                yield
        self.__dict__.update(found.__dict__)

    def _add_led(self, partition: "Partition") -> None:
        term = partition.role.term
        if term is None:
            return
        in_sync, needed = len(term.in_sync), term.in_sync_needed
        adding = self._broker.image.adding.get(partition.topic_partition, frozenset())
        self.under_replicated += in_sync < len(term.assigned - adding)  # KIP-352
        self.under_min_isr += term.too_few_in_sync
        self.at_min_isr += in_sync == needed
        self.followers_lag_max = max(self.followers_lag_max, term.lag_max())


class LogSizes:
    """Bytes of logs by topic; partitions would be too many labels."""

    def __init__(self, broker: "Broker") -> None:
        """Start empty: nothing is known before the first survey."""
        self._broker = broker
        self.by_topic: dict[str, float] = {}

    def slices(self) -> Iterator[None]:
        """Add up the segments of all logs, a slice at each step."""
        found: dict[str, float] = {}
        for directory in self._broker.directories:
            if directory.fenced:
                continue
            for at in sliced(directory.logs.items()):
                if at is None:
                    yield
                    continue
                key, log = at
                size = sum(segment.size for segment in log.segments)
                found[key.topic] = found.get(key.topic, 0) + size
        self.by_topic = found


class GroupLags:
    """Lag of the groups coordinated here: records behind the high watermark."""

    def __init__(
        self, broker: "Broker", coordinators: "Coordinators", series_max: Callable[[], int]
    ) -> None:
        """Create the survey of group lags.

        `series_max` returns how many pairs of group and topic have metrics at most.
        """
        self._broker = broker
        self._coordinators = coordinators
        self._series_max = series_max
        self.records: dict[tuple[str, ...], float] = {}
        """Records between the committed offset and the high watermark, by group and topic."""
        self.unlisted = 0
        """Number of pairs of group and topic beyond the limit."""
        self.partitions_unknown = 0
        """Number of partitions with a committed offset and no replica on this broker."""

    def slices(self) -> Iterator[None]:
        """Survey the committed offsets of groups coordinated here, a slice at each step."""
        found = GroupLags(self._broker, self._coordinators, self._series_max)
        looked = 0
        for group, by_topic in self._groups():
            for topic, partitions in list(by_topic.items()):
                listed = len(found.records) < self._series_max()
                if not listed:
                    found.unlisted += 1
                lag = 0
                for index, committed in list(partitions.items()) if listed else ():
                    lag += found._lag(topic, index, committed.offset)
                    looked += 1
                    if looked % SLICE_PARTITIONS == 0:
                        yield
                if listed:
                    found.records[group, topic] = lag
                elif found.unlisted % SLICE_PARTITIONS == 0:
                    yield
        self.__dict__.update(found.__dict__)

    def _groups(self) -> "Iterator[tuple[str, ByTopic]]":
        if OFFSETS_TOPIC not in self._broker.image.topics:
            return  # the broker has no group: the coordinator's code is not loaded
        from headrace.shards.shard import ShardState

        for shard in self._coordinators.groups.led:
            if shard.state is ShardState.ACTIVE:
                yield from list(shard.context.offsets.by_group.items())

    def _lag(self, topic: str, index: int, committed: int) -> int:
        broker, at = self._broker, (topic, index)
        partition = broker.partitions.get(at) or broker.followed.get(at)
        if partition is None:
            self.partitions_unknown += 1
            return 0
        return max(partition.high_watermark - committed, 0)


def sliced(entries: Iterable[T]) -> Iterator[T | None]:
    """Yield a copy of the entries, with None after every slice."""
    for number, entry in enumerate(list(entries), 1):
        yield entry
        if number % SLICE_PARTITIONS == 0:
            yield None


def _lag(partition: "Partition") -> int:
    follower = partition.role.follower
    if follower is None:
        return 0
    return max(follower.leader_high_watermark - partition.log.end_offset, 0)
