"""The partitions of a follower's fetch, which waits for the log end to grow."""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.fetch.wanted_partitions import WantedPartition, WantedPartitions

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.replica.leader_term import LeaderTerm
    from headrace.model.nouns import BrokerId
    from headrace.wire.kafka.hot.fetch import FetchPartition

Key = tuple[str | bytes, int]


class FollowedPartition(WantedPartition):
    """One partition of a follower's fetch."""

    __slots__ = ("_term",)

    def __init__(self, key: Key, asked: "FetchPartition", turn: int) -> None:
        super().__init__(key, asked, turn)
        self._term: LeaderTerm | None = None
        """The leader's term that is watched; None: none is."""

    def watch(self, partition: "Partition", wanted: WantedPartitions) -> None:
        """Watch also the log end, and the end of the leader's term."""
        super().watch(partition, wanted)
        term = partition.role.term
        if term is not self._term:
            self._unwatch_term()
            if term is not None:
                self._term = term
                term.watch(self._grew)

    def unwatch(self) -> None:
        """Stop watching the partition's log and its leader's term."""
        super().unwatch()
        self._unwatch_term()

    def _unwatch_term(self) -> None:
        term, self._term = self._term, None
        if term is not None:
            term.unwatch(self._grew)

    def _grew(self) -> None:
        wanted, term = self._marked_in, self._term
        # Its last request had no new offset: the follower had all records until now.
        if isinstance(wanted, WantedByFollower) and term is not None and self not in wanted.ready:
            term.was_caught_up(wanted.follower, wanted.asked_at)
        self.mark()


class WantedByFollower(WantedPartitions):
    """The partitions that one follower fetches."""

    __slots__ = ("asked_at", "follower")

    entry = FollowedPartition

    def __init__(self, follower: "BrokerId", *, kept: bool) -> None:
        super().__init__(kept=kept)
        self.follower = follower
        self.asked_at = float("-inf")
        """Monotonic seconds at which the last request came."""
