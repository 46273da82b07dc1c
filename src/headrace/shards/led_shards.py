"""`LedShards`: the shards of one internal topic whose partitions this broker leads."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from headrace.broker.metadata_image import MetadataImage
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import when_all
from headrace.shards.group_partition import partition_for
from headrace.shards.shard import Shard, ShardPartition, ShardState

S = TypeVar("S", bound=Shard)
MakeShard = Callable[[int, ShardPartition, int], S]
"""Returns an unloaded shard for a partition's index, the partition, and the leader epoch."""


class LedShards(Generic[S]):
    """The shards of the partitions of one topic that this broker leads. On the deciding thread."""

    def __init__(
        self,
        topic: str,
        make: MakeShard[S],
        *,
        image: Callable[[], MetadataImage],
        partitions: Callable[[], int],
    ) -> None:
        """Create without shards. `partitions`: number of partitions until the topic exists."""
        self.topic = topic
        self._make = make
        self._image = image
        self._partitions = partitions
        self._shards: dict[int, S] = {}

    def __iter__(self) -> Iterator[S]:
        """Yield the shards in the order of their partitions."""
        return iter([self._shards[index] for index in sorted(self._shards)])

    def lead(self, index: int, partition: ShardPartition, epoch: int) -> None:
        """Create and load the shard of partition `index`, which this broker leads from now on.

        If the broker led it without interruption, the shard stays and takes over `epoch`.
        """
        present = self._shards.get(index)
        if present is not None:
            if present.partition is partition and present.state is not ShardState.FAILED:
                present.epoch = max(present.epoch, epoch)
                return
            present.unload()
        shard = self._shards[index] = self._make(index, partition, epoch)
        shard.load()

    def resign(self, index: int, epoch: int | None = None) -> None:
        """Unload a partition's shard, unless its leader epoch is later than `epoch` (if given)."""
        shard = self._shards.get(index)
        if shard is None or (epoch is not None and epoch < shard.epoch):
            return
        del self._shards[index]
        shard.unload()

    def close(self) -> None:
        """Unload all shards; pending requests end with NOT_COORDINATOR."""
        for index in list(self._shards):
            self.resign(index)

    def partition_for(self, key: str) -> int:
        """Return the partition that coordinates `key`."""
        topic = self._image().topics.get(self.topic)
        # An existing topic keeps its number of partitions, whatever the configuration says.
        count = self._partitions() if topic is None else len(topic.partitions)
        return partition_for(key, count)

    def at(self, index: int) -> S | None:
        """Return the shard of a partition, or None if this broker does not lead it."""
        return self._shards.get(index)

    def leader_of(self, index: int, own: BrokerId) -> BrokerId:
        """Return the leader of a partition: `own` if its shard is here; NO_LEADER: it has none."""
        if index in self._shards:
            return own
        return self._image().leader_of(TopicPartition(self.topic, index))

    def of(self, key: str) -> S:
        """Return the shard of `key`. ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        shard.check_active()
        return shard

    def active(self) -> Iterator[S]:
        """Yield the active shards; ApiError COORDINATOR_LOAD_IN_PROGRESS: a shard is loading."""
        for shard in self:
            if shard.state is ShardState.LOADING:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if shard.state is ShardState.ACTIVE:
                yield shard

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no shard that is loading now is loading any more."""
        loading = [shard for shard in self._shards.values() if shard.state is ShardState.LOADING]
        loaded = when_all(len(loading), callback)
        for shard in loading:
            shard.when_loaded(loaded)
