"""`InSyncReplicas`: a leader's view of its followers and its requests to change the ISR.

    committed ISR   the ISR that the controller has written
    pending         a change that the controller was asked for and has not answered
    maximal ISR     committed ISR and pending one together, while the answer is not known: the high
                    watermark waits for all of them (as Kafka's `Partition.scala`)

    join, leave, shrink -> pending -> committed   (the controller wrote it)
                              |----> refused      (back to the committed ISR)
                              |----> answer_lost  (both stay in force until a later answer)

These classes only compute: a change is returned, and the caller asks the controller.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.nouns import BrokerId, Offset

_UNKNOWN = Offset(-1)
_NEVER = float("-inf")


class Replicas(NamedTuple):
    """A partition's replicas and ISR as the controller has written them."""

    own: BrokerId
    assigned: tuple[BrokerId, ...]
    in_sync: tuple[BrokerId, ...]
    partition_epoch: int = 0
    """Version of the partition's state; increases with each write."""


ALONE = Replicas(BrokerId(-1), (BrokerId(-1),), (BrokerId(-1),))
"""A partition without other replicas; the broker id does not matter."""


class IsrChange(NamedTuple):
    """A requested ISR; the controller writes it if the partition epoch still matches."""

    partition_epoch: int
    in_sync: tuple[tuple[BrokerId, int], ...]
    """(member, broker epoch or -1 if unknown); the sender adds the leader's epoch."""


class ReplicaFetch(NamedTuple):
    """A follower's state as its fetch request reports it."""

    replica: BrokerId
    log_end: Offset
    flushed_end: Offset
    replica_epoch: int = -1
    """Broker epoch of the follower (Fetch version 15); -1 if not sent."""
    log_start: Offset = _UNKNOWN


@dataclass(slots=True)
class Progress:
    """The last known state of a follower."""

    log_end: Offset = _UNKNOWN
    flushed_end: Offset = _UNKNOWN
    log_start: Offset = _UNKNOWN
    caught_up_at: float = _NEVER
    """When the follower last had all records of the leader at that time, in monotonic seconds."""
    replica_epoch: int = -1
    asked_at: float = _NEVER
    asked_leader_end: Offset = _UNKNOWN
    """The leader's end offset at the follower's last fetch; reaching it now proves it caught up
    then."""


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
        """Begin a term at the log's end offset `start`, with unknown follower positions."""
        self._own = replicas.own
        self.start = start
        self.assigned = frozenset(replicas.assigned)
        self._order = replicas.in_sync
        """The committed ISR in order: members that joined come last, as in Kafka."""
        self.in_sync = frozenset(replicas.in_sync)
        """The committed ISR."""
        self.maximal = self.in_sync
        """The replicas that the high watermark waits for: committed ISR and pending change."""
        self.partition_epoch = replicas.partition_epoch
        self.pending: IsrChange | None = None
        """The change that the controller was asked for; repeated until answered."""
        self._answer_unknown = False
        self._progress = {
            replica: Progress(caught_up_at=now if replica in self.in_sync else _NEVER)
            for replica in replicas.assigned
            if replica != replicas.own
        }

    @property
    def alone(self) -> bool:
        """Whether the committed ISR is the leader alone.

        A member that is only pending may be ignored by an unclean election.
        """
        return len(self.in_sync) == 1

    def progress(self, replica: BrokerId) -> Progress | None:
        """Return a follower's state, or None if the broker has no replica."""
        return self._progress.get(replica)

    def lowest_end(self, own: Offset, *, flushed: bool) -> Offset:
        """Return the end offset that all of the maximal ISR have reached; the leader is at
        `own`."""
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
        """Record a follower's fetch; return False if it is no replica or its broker was
        restarted."""
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
        """Return the greatest log start among the leader (`own`) and the living replicas."""
        starts = (known.log_start for who, known in self._progress.items() if who in living)
        return min((own, *starts))

    def lag_max(self, leader_start: Offset, leader_end: Offset) -> int:
        """Return by how many offsets the slowest replica's end is below the leader's.

        A replica that has not fetched counts as lagging by the whole log.
        """
        ends = (known.log_end for known in self._progress.values())
        return max((leader_end - max(end, leader_start) for end in ends), default=0)

    def was_caught_up(self, replica: BrokerId, at: float) -> None:
        """Record that a follower without new fetches still had all records at time `at`."""
        known = self._progress.get(replica)
        if known is not None:
            known.caught_up_at = max(known.caught_up_at, at)

    def join(self, replica: BrokerId, high_watermark: Offset, *, flushed: bool) -> IsrChange | None:
        """Request that a follower joins the ISR, if it has everything that may be committed.

        That is all below the high watermark and below the term's start: a new leader's own high
        watermark lags, and the former leader may have acknowledged records above it.
        """
        if self.pending is not None or replica in self.maximal:
            return None
        if self._end_of(replica, flushed=flushed) < max(high_watermark, self.start):
            return None
        return self._ask_for(self.in_sync | {replica})

    def leave(self, replica: BrokerId, high_watermark: Offset) -> IsrChange | None:
        """Request the removal of a member whose log ends below the high watermark.

        It had those records: its log was shortened outside of replication. It may rejoin later.
        """
        known = self._progress.get(replica)
        if self.pending is not None or known is None or replica not in self.in_sync:
            return None
        return self._ask_for(self.in_sync - {replica}) if known.log_end < high_watermark else None

    def shrink(self, leader_end: Offset, now: float, lag_seconds_max: float) -> IsrChange | None:
        """Request the removal of members that have not kept up for `lag_seconds_max` seconds."""
        if self.pending is not None:
            return None
        behind = {
            replica
            for replica in self.in_sync
            if replica != self._own and self._lags(replica, leader_end, now, lag_seconds_max)
        }
        return self._ask_for(self.in_sync - behind) if behind else None

    def leave_silent(self, silent: Container[BrokerId]) -> IsrChange | None:
        """Request the removal of the members in `silent`, which answer no pings (ADR 78)."""
        if self.pending is not None:
            return None
        left = {member for member in self.in_sync if member != self._own and member in silent}
        return self._ask_for(self.in_sync - left) if left else None

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
        """Apply the ISR that the controller has written; return False if it is outdated."""
        if partition_epoch <= self.partition_epoch:
            return False
        self._order = in_sync
        self.in_sync = self.maximal = frozenset(in_sync)
        self.partition_epoch = partition_epoch
        self.pending, self._answer_unknown = None, False
        return True

    def answer_lost(self) -> None:
        """Note that the controller may have written the pending change: both ISRs stay in force."""
        self._answer_unknown = self.pending is not None

    def refused(self) -> IsrChange | None:
        """Note that the controller refused the pending change; return another request, or None.

        If an earlier answer was lost, its change may still be written. So the committed ISR is
        requested: that write outdates it, and until then the union stays in force.
        """
        self.pending = None
        if self._answer_unknown:
            return self._ask_for(self.in_sync)
        self.maximal = self.in_sync
        return None
