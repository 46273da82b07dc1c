"""Which replicas hold what their leader has, as it knows it; and what it asks to have changed.

The committed ISR is what the controller has written. While a change of it is asked for, and as long
as its answer is not known, the union of the old and the new one is in force: the maximal ISR, which
the high watermark waits for (Kafka's `Partition.scala`). Nothing here acts: a change is returned,
and whoever asks the controller reports what came of it.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.nouns import BrokerId, Offset

_UNKNOWN = Offset(-1)
_NEVER = float("-inf")


class Replicas(NamedTuple):
    """Who holds a partition, as the controller has written it."""

    own: BrokerId
    assigned: tuple[BrokerId, ...]
    in_sync: tuple[BrokerId, ...]
    partition_epoch: int = 0
    """Grows with each write of the partition's state."""


ALONE = Replicas(BrokerId(-1), (BrokerId(-1),), (BrokerId(-1),))
"""A partition that has no other replica; its broker's id does not matter."""


class IsrChange(NamedTuple):
    """An ISR that the controller is asked to write, if the partition's epoch is still this one."""

    partition_epoch: int
    in_sync: tuple[tuple[BrokerId, int], ...]
    """Members with their broker epochs, -1 where not known; the leader's is the sender's to add."""


class ReplicaFetch(NamedTuple):
    """What a follower's fetch says of it."""

    replica: BrokerId
    log_end: Offset
    flushed_end: Offset
    replica_epoch: int = -1
    """The epoch of its broker's registration (Fetch 15)."""
    log_start: Offset = _UNKNOWN


@dataclass(slots=True)
class Progress:
    """How far a follower has come."""

    log_end: Offset = _UNKNOWN
    flushed_end: Offset = _UNKNOWN
    log_start: Offset = _UNKNOWN
    caught_up_at: float = _NEVER
    """When it last had all that the leader had at that time, in monotonic seconds."""
    replica_epoch: int = -1
    asked_at: float = _NEVER
    asked_leader_end: Offset = _UNKNOWN
    """The leader's end at its last fetch: who reaches it now had all then."""


class InSyncReplicas:
    """The ISR of one leader's term."""

    __slots__ = (
        "_answer_unknown",
        "_order",
        "_own",
        "_progress",
        "assigned",
        "in_sync",
        "maximal",
        "partition_epoch",
        "pending",
        "start",
    )

    def __init__(self, replicas: Replicas, start: Offset, now: float) -> None:
        """Begin a term at the log's end `start`; where the followers are is not known yet."""
        self._own = replicas.own
        self.start = start
        self.assigned = frozenset(replicas.assigned)
        self._order = replicas.in_sync
        """The committed ISR as it is written: who joins comes last (Kafka's order)."""
        self.in_sync = frozenset(replicas.in_sync)
        """The committed ISR."""
        self.maximal = self.in_sync
        """What the high watermark waits for: the committed ISR, and what may be by now."""
        self.partition_epoch = replicas.partition_epoch
        self.pending: IsrChange | None = None
        """What the controller was asked and has not answered: to be asked again, no other."""
        self._answer_unknown = False
        self._progress = {
            replica: Progress(caught_up_at=now if replica in self.in_sync else _NEVER)
            for replica in replicas.assigned
            if replica != replicas.own
        }

    @property
    def alone(self) -> bool:
        """Whether the committed ISR is the leader alone: whoever else is asked for to join may be
        passed over by an unclean election, as long as that is not written."""
        return len(self.in_sync) == 1

    def progress(self, replica: BrokerId) -> Progress | None:
        """Return how far a follower has come; None of a broker that holds no replica."""
        return self._progress.get(replica)

    def lowest_end(self, own: Offset, *, flushed: bool) -> Offset:
        """Return the end that all of the maximal ISR have reached, the leader being at `own`."""
        for replica in self.maximal:
            if replica != self._own:
                own = min(own, self._end_of(replica, flushed=flushed))
        return own

    def _end_of(self, replica: BrokerId, *, flushed: bool) -> Offset:
        known = self._progress.get(replica)
        if known is None:
            return _UNKNOWN
        return known.flushed_end if flushed else known.log_end

    def note_fetch(self, fetch: ReplicaFetch, leader_end: Offset, now: float) -> bool:
        """Note where a follower is; False where it is no replica, or its broker was restarted."""
        known = self._progress.get(fetch.replica)
        if known is None or fetch.replica_epoch < known.replica_epoch:
            return False
        if fetch.log_end >= leader_end:
            known.caught_up_at = now
        elif fetch.log_end >= known.asked_leader_end > _UNKNOWN:
            known.caught_up_at = max(known.caught_up_at, known.asked_at)
        known.log_end, known.flushed_end = fetch.log_end, fetch.flushed_end
        known.replica_epoch, known.log_start = fetch.replica_epoch, fetch.log_start
        known.asked_at, known.asked_leader_end = now, leader_end
        return True

    def lowest_start(self, own: Offset, living: Container[BrokerId]) -> Offset:
        """Return the start that all living replicas have reached, the leader being at `own`."""
        starts = (known.log_start for who, known in self._progress.items() if who in living)
        return min((own, *starts))

    def lag_max(self, leader_start: Offset, leader_end: Offset) -> int:
        """Return by how much the replica that is behind most ends before the leader does.

        One that has not been heard of is behind by the whole log.
        """
        ends = (known.log_end for known in self._progress.values())
        return max((leader_end - max(end, leader_start) for end in ends), default=0)

    def was_caught_up(self, replica: BrokerId, at: float) -> None:
        """Note that a follower that asks no more, as it has all, was there still at that time."""
        known = self._progress.get(replica)
        if known is not None:
            known.caught_up_at = max(known.caught_up_at, at)

    def join(self, replica: BrokerId, high_watermark: Offset, *, flushed: bool) -> IsrChange | None:
        """Ask for a follower to join, if it has all that may be committed.

        That is all below the high watermark, and all below the term's start: a new leader's own
        high watermark lags, and records above it may have been acknowledged by the one before.
        """
        if self.pending is not None or replica in self.maximal:
            return None
        if self._end_of(replica, flushed=flushed) < max(high_watermark, self.start):
            return None
        return self._ask_for(self.in_sync | {replica})

    def leave(self, replica: BrokerId, high_watermark: Offset) -> IsrChange | None:
        """Ask the controller to remove a member whose log ends below the high watermark.

        It had all of that: its log got shorter outside of replication. It may join once it has it.
        """
        known = self._progress.get(replica)
        if self.pending is not None or known is None or replica not in self.in_sync:
            return None
        return self._ask_for(self.in_sync - {replica}) if known.log_end < high_watermark else None

    def shrink(self, leader_end: Offset, now: float, lag_seconds_max: float) -> IsrChange | None:
        """Ask for those to leave that have not kept up for `lag_seconds_max`."""
        if self.pending is not None:
            return None
        behind = {
            replica
            for replica in self.in_sync
            if replica != self._own and self._lags(replica, leader_end, now, lag_seconds_max)
        }
        return self._ask_for(self.in_sync - behind) if behind else None

    def _lags(
        self, replica: BrokerId, leader_end: Offset, now: float, lag_seconds_max: float
    ) -> bool:
        known = self._progress.get(replica)
        if known is None:
            return True
        return known.log_end < leader_end and now - known.caught_up_at > lag_seconds_max

    def _ask_for(self, wanted: frozenset[BrokerId]) -> IsrChange:
        stay = [replica for replica in self._order if replica in wanted]
        members = tuple(
            (replica, known.replica_epoch if (known := self._progress.get(replica)) else -1)
            for replica in (*stay, *sorted(wanted - self.in_sync))
        )
        self.pending = IsrChange(self.partition_epoch, members)
        self.maximal = self.maximal | wanted
        return self.pending

    def committed(self, in_sync: tuple[BrokerId, ...], partition_epoch: int) -> bool:
        """Take the ISR that the controller has written; False where that is old news."""
        if partition_epoch <= self.partition_epoch:
            return False
        self._order = in_sync
        self.in_sync = self.maximal = frozenset(in_sync)
        self.partition_epoch = partition_epoch
        self.pending, self._answer_unknown = None, False
        return True

    def answer_lost(self) -> None:
        """Note that the controller may have written the pending change: the union stays."""
        self._answer_unknown = self.pending is not None

    def refused(self) -> IsrChange | None:
        """Note that the controller has not written the pending change; what to ask for instead.

        Where an earlier answer was lost, what was sent then may be written yet. The ISR that holds
        is asked for anew: that write outdates it, and until then the union stays.
        """
        self.pending = None
        if self._answer_unknown:
            return self._ask_for(self.in_sync)
        self.maximal = self.in_sync
        return None
