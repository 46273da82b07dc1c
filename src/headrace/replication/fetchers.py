"""All that is followed here: who is asked for what. One conversation with each leading broker."""

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.partition import Partition
from headrace.model.nouns import BrokerId
from headrace.replication.followed_partition import FollowedPartition
from headrace.replication.means import Means, Running
from headrace.replication.source import Source


class ReplicaFetchers:
    """The followers of one broker. On the deciding thread."""

    def __init__(self, broker: Broker, means: Means) -> None:
        """Follow nothing yet."""
        self._broker = broker
        self._means = means
        self._sources: dict[BrokerId, tuple[Source, Running]] = {}
        self._source_of: dict[tuple[str, int], Source] = {}

    @property
    def followed(self) -> int:
        """How many partitions are fetched."""
        return len(self._source_of)

    @property
    def failing(self) -> int:
        """How many leaders could not be asked when that was last tried."""
        return sum(source.failing for source, _ in self._sources.values())

    def follow(self, partition: Partition) -> None:
        """Fetch from the leader that the partition follows now; again is fine."""
        at = (*partition.topic_partition,)
        follower = partition.role.follower
        source = self._source_of.get(at)
        if source is not None and follower is not None and source.follows(partition, follower):
            return
        self.forget(partition)
        if follower is None or follower.leader in (NO_LEADER, self._broker.broker_id):
            return
        source = self._source(follower.leader)
        self._source_of[at] = source
        source.add(FollowedPartition(partition, follower, source.changed))

    def forget(self, partition: Partition) -> None:
        """Fetch nothing of the partition."""
        source = self._source_of.pop((*partition.topic_partition,), None)
        if source is None:
            return
        source.remove(partition)
        if not source.members:
            self._end(source.leader)

    def _source(self, leader: BrokerId) -> Source:
        known = self._sources.get(leader)
        if known is None:
            source = Source(self._broker, self._means, leader, self._left)
            known = self._sources[leader] = source, self._means.spawn(source.converse())
        return known[0]

    def _end(self, leader: BrokerId) -> None:
        source, running = self._sources.pop(leader)
        source.close()
        running.cancel()

    def _left(self, partition: Partition) -> None:
        """Look at a partition again whose log is free again, whoever is followed by now."""
        source = self._source_of.get((*partition.topic_partition,))
        if source is not None:
            source.changed((partition.topic_id, partition.topic_partition.partition))

    def close(self) -> None:
        """Fetch nothing more."""
        for leader in tuple(self._sources):
            for member in tuple(self._sources[leader][0].members.values()):
                member.end()
            self._end(leader)
        self._source_of.clear()
