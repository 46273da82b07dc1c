"""`ReplicaFetchers`: the fetches of all partitions that follow a leader.

One conversation with each leader's broker, and up to `num.replica.fetchers` while partitions catch
up: one response is written while another arrives. In-sync partitions share one, as more would only
mean more requests.
"""

from collections.abc import Sequence

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.partition import Partition
from headrace.broker.replica.follower import Follower
from headrace.model.nouns import BrokerId
from headrace.replication.fetch_dependencies import FetchDependencies, Running
from headrace.replication.followed_partition import FollowedPartition
from headrace.replication.source import Source


class ReplicaFetchers:
    """The fetches of one broker's followers. For the deciding thread."""

    def __init__(self, broker: Broker, dependencies: FetchDependencies) -> None:
        """Make a broker's fetchers without partitions."""
        self._broker = broker
        self._dependencies = dependencies
        self._sources: dict[BrokerId, list[tuple[Source, Running]]] = {}
        """The conversations of each leader; all but the first have partitions that catch up."""
        self._source_of: dict[tuple[str, int], Source] = {}

    @property
    def followed(self) -> int:
        """Number of partitions that are fetched."""
        return len(self._source_of)

    @property
    def failing(self) -> int:
        """Number of leaders whose last request failed."""
        return sum(any(source.failing for source, _ in some) for some in self._sources.values())

    def follow(self, partition: Partition) -> None:
        """Fetch from the leader that the partition follows now; may be called repeatedly."""
        at = (*partition.topic_partition,)
        follower = partition.role.follower
        source = self._source_of.get(at)
        if source is not None and follower is not None and source.follows(partition, follower):
            return
        self.forget(partition)
        if follower is None or follower.leader in (NO_LEADER, self._broker.broker_id):
            return
        self._add(partition, follower, self._first(follower.leader))

    def _add(self, partition: Partition, follower: Follower, source: Source) -> None:
        self._source_of[(*partition.topic_partition,)] = source
        source.add(FollowedPartition(partition, follower, source.changed))

    def forget(self, partition: Partition) -> None:
        """Stop fetching the partition."""
        source = self._source_of.pop((*partition.topic_partition,), None)
        if source is None:
            return
        source.remove(partition)
        if not source.members:
            self._end(source)

    def _first(self, leader: BrokerId) -> Source:
        """Return the conversation with a leader that in-sync partitions share."""
        some = self._sources.get(leader)
        return some[0][0] if some else self._begin(leader)

    def _begin(self, leader: BrokerId) -> Source:
        """Begin a conversation with a leader; a further one is for partitions that catch up."""
        some = self._sources.setdefault(leader, [])
        source = Source(self._broker, self._dependencies, leader, self._left, self._spread)
        source.is_aside = bool(some)
        some.append((source, self._dependencies.spawn(source.converse())))
        return source

    def _end(self, source: Source) -> None:
        some = self._sources[source.leader]
        at = next(at for at, (known, _) in enumerate(some) if known is source)
        _, running = some.pop(at)
        if not some:
            del self._sources[source.leader]
        source.close()
        running.cancel()

    def _spread(
        self,
        source: Source,
        catching_up: Sequence[FollowedPartition],
        others: Sequence[FollowedPartition],
    ) -> None:
        """Distribute the partitions of a conversation after a response.

        Those that catch up are spread over several conversations; the others return to the first.
        """
        if source is self._first(source.leader):
            source.is_aside = False
            left = len(catching_up)
            for member in catching_up[1:]:
                target = self._least(source.leader)
                if target is None or len(target.members) >= left - 1:
                    break
                self._move(member, source, target)
                left -= 1
        else:
            for member in others:
                self._move(member, source, self._first(source.leader))
        if not source.members:
            self._end(source)

    def _least(self, leader: BrokerId) -> Source | None:
        """Return a conversation with a leader for partitions that catch up.

        A new one below `num.replica.fetchers`, else that with the fewest partitions, or None.
        """
        some = self._sources[leader]
        if len(some) < self._broker.config.num_replica_fetchers:
            return self._begin(leader)
        return min((source for source, _ in some[1:]), key=_members, default=None)

    def _move(self, member: FollowedPartition, source: Source, target: Source) -> None:
        source.remove(member.partition)
        self._add(member.partition, member.follower, target)

    def _left(self, partition: Partition) -> None:
        """Check a partition again whose log is free again, with its present leader."""
        source = self._source_of.get((*partition.topic_partition,))
        if source is not None:
            source.changed((partition.topic_id, partition.topic_partition.partition))

    def close(self) -> None:
        """Stop fetching all partitions."""
        for source in [source for some in self._sources.values() for source, _ in some]:
            for member in source.members.values():
                member.end()
            self._end(source)
        self._source_of.clear()


def _members(source: Source) -> int:
    return len(source.members)
