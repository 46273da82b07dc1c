"""What a follower fetches: it waits for the log's end, and is told of the high watermark too."""

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
        """The one that is watched."""

    def watch(self, partition: "Partition", wanted: WantedPartitions) -> None:
        """Be marked by the log's growth and by the end of its leader's term, too."""
        super().watch(partition, wanted)
        term = partition.role.term
        if term is not self._term:
            self._unwatch_term()
            if term is not None:
                self._term = term
                term.watch(self._grew)

    def unwatch(self) -> None:
        """Be marked no more."""
        super().unwatch()
        self._unwatch_term()

    def _unwatch_term(self) -> None:
        term, self._term = self._term, None
        if term is not None:
            term.unwatch(self._grew)

    def _grew(self) -> None:
        wanted, term = self._marked_in, self._term
        # Its last request named no new offset: it had all that there was until now.
        if isinstance(wanted, WantedByFollower) and term is not None and self not in wanted.ready:
            term.was_caught_up(wanted.follower, wanted.asked_at)
        self.mark()


class WantedByFollower(WantedPartitions):
    """Those of one follower."""

    __slots__ = ("asked_at", "follower")

    entry = FollowedPartition

    def __init__(self, follower: "BrokerId", *, kept: bool) -> None:
        super().__init__(kept=kept)
        self.follower = follower
        self.asked_at = float("-inf")
        """When the last request came, in monotonic seconds."""
