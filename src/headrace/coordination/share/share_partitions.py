"""`SharePartitions`: the share partitions that this broker serves, created on first use."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from headrace.coordination.share.counts import ShareCounts
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.share_partition import SharePartition
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.deadlines import Deadlines

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.share.settings import GroupSettings
    from headrace.coordination.share.sessions import TopicPart
    from headrace.coordination.share.state_port import ShareStatePort
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk

A = TypeVar("A")
B = TypeVar("B")
FindPartition = Callable[[bytes, int], "Partition"]
"""Returns a partition by topic id and index. ApiError UNKNOWN_TOPIC_ID, …"""


class SharePartitions:
    """Share partitions by group, topic id and index. One timer for all acquisition locks."""

    def __init__(
        self,
        *,
        clock: "Clock",
        disk: "Disk",
        states: "ShareStatePort",
        settings: "GroupSettings",
        find: FindPartition,
    ) -> None:
        self._disk = disk
        self._states = states
        self._settings = settings
        self._find = find
        self._deadlines = Deadlines(clock)
        self._groups: dict[str, dict[ShareKey, SharePartition]] = {}
        self._of_partitions: dict[TopicPart, dict[str, SharePartition]] = {}
        """The same share partitions by topic id and partition index, then by group."""
        self.counts = ShareCounts()

    def __iter__(self) -> Iterator[SharePartition]:
        return (
            partition
            for group in tuple(self._groups.values())
            for partition in tuple(group.values())
        )

    def get(self, key: ShareKey) -> SharePartition:
        """Return the share partition, loading if it is new.

        ApiError: the partition is not led here.
        """
        known = self.known(key)
        if known is not None:
            return known
        made = SharePartition(
            key,
            self._find(key.topic_id, key.partition),
            states=self._states,
            settings=self._settings,
            deadlines=self._deadlines,
            disk=self._disk,
            ended=self._ended,
            counts=self.counts,
        )
        self._groups.setdefault(key.group, {})[key] = made
        part = (key.topic_id, key.partition)
        self._of_partitions.setdefault(part, {})[key.group] = made
        made.load()
        return made

    def known(self, key: ShareKey) -> SharePartition | None:
        """Return the share partition, or None if it is not loaded here."""
        return self._groups.get(key.group, {}).get(key)

    def of_group(self, group: str) -> tuple[SharePartition, ...]:
        """Return the share partitions of one group that were used."""
        return tuple(self._groups.get(group, {}).values())

    def forget(self, key: ShareKey) -> None:
        """End a share partition whose stored state was replaced; the next use loads it again."""
        known = self.known(key)
        if known is not None:
            known.end(ApiError(ErrorCode.FENCED_STATE_EPOCH))

    def partition_closed(self, partition: "Partition") -> None:
        """End the share partitions of a partition that this broker no longer serves."""
        because = partition.refusal or ErrorCode.NOT_LEADER_OR_FOLLOWER
        part = (partition.topic_id, partition.topic_partition.partition)
        for share_partition in tuple(self._of_partitions.get(part, {}).values()):
            if share_partition.partition is partition:
                share_partition.end(ApiError(because))

    def close(self) -> None:
        """End all share partitions."""
        for partition in self:
            partition.end(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._deadlines.close()

    def _ended(self, ended: SharePartition) -> None:
        key = ended.key
        if self.known(key) is ended:
            part = (key.topic_id, key.partition)
            _remove(self._groups, key.group, key)
            _remove(self._of_partitions, part, key.group)


def _remove(index: dict[A, dict[B, SharePartition]], first: A, second: B) -> None:
    found = index[first]
    del found[second]
    if not found:
        del index[first]
