"""`PartitionRole`: whether a broker leads or follows a partition; moves the high watermark.

    none ── lead ──> leads      (alone: no other replica; else a LeaderTerm)
      └──── follow ─> follows   (a Follower)
    leads or follows ── lead, follow in a later epoch ──> the new role;  resign ──> none
    any ── close ──> closed for good

The log is not changed by a change of role. Its high watermark is moved only here: by the own flush
without other replicas, else as far as the term or the followed leader allows. It never decreases.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from headrace.broker.replica.in_sync_replicas import ALONE, Replicas
from headrace.broker.waiters import CommitWaiters
from headrace.broker.watchable import wake
from headrace.log.flusher import Flusher
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import invariant
from headrace.model.nouns import NO_EPOCH, BrokerId, LeaderEpoch, Offset
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.replica.follower import Follower
    from headrace.broker.replica.leader_term import LeaderTerm


def always() -> bool:
    """Return True: a single broker's leadership lease always holds."""
    return True


def ask_nobody(partition: object) -> None:
    """Do nothing: there is no controller to ask for another ISR."""


class PartitionRole:
    """A partition's current role, and its high watermark. Listens to the log's flushes."""

    __slots__ = (
        "_alone",
        "_announced",
        "_announced_start",
        "_flush_soon",
        "_watchers",
        "closed",
        "flushes_on_ack",
        "follower",
        "leader_epoch",
        "log",
        "term",
        "too_few_replicas",
        "waiters",
    )

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        watchers: Collection[Callable[[], None]],
        *,
        flush_on_ack: bool,
    ) -> None:
        """Make a partition without a role; `watchers` are the partition's, called on changes.

        Passed without the partition: with a reference to it, a deleted one would be freed only by
        the garbage collector's next run.
        """
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.term: LeaderTerm | None = None
        """The state of followers; None without followers, or if this broker does not lead."""
        self.follower: Follower | None = None
        """The state of the followed leader; None if this broker does not follow."""
        self.closed = False
        self.flushes_on_ack = flush_on_ack
        self.too_few_replicas = False
        """Whether the committed ISR is smaller than `min.insync.replicas`."""
        self.waiters = CommitWaiters(log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._watchers = watchers
        self._flush_soon = flusher.flush_soon
        self._alone = False
        """Whether this broker leads without other replicas, so that its own flush commits."""
        if flush_on_ack:  # earlier commits count as far as they were flushed
            log.high_watermark = Offset(min(log.high_watermark, log.flushed_offset))
        self._announced = log.high_watermark
        self._announced_start = log.start_offset
        log.listen(self)

    def move_to(self, log: Log, flusher: Flusher) -> None:
        """Continue on a copy of the log, flushed to its end, with the same listeners."""
        log.listeners, self.log.listeners = self.log.listeners, ()
        self.log = log
        self._flush_soon = flusher.flush_soon
        self.waiters.move_to(log)
        for listener in log.listeners:
            listener.log_flushed(log.flushed_offset)
        for listener in log.listeners:
            listener.log_readable()
        wake(self._watchers)

    def lead(
        self,
        leader_epoch: LeaderEpoch,
        replicas: Replicas = ALONE,
        *,
        now: float = 0.0,
        may_commit: Callable[[], bool] = always,
    ) -> None:
        """Lead from the log's end on in `leader_epoch`, which no append has used before.

        Repeated in the same epoch: a newer ISR counts, and the lease, as it may hold by the
        repeated order. `now`: monotonic seconds. `may_commit`:
        whether the lease holds, called if the committed ISR is this broker alone. ApiError:
        FENCED_LEADER_EPOCH for an older epoch; the reason if closed.
        """
        alone, log = len(replicas.assigned) == 1, self.log
        repeated, term = self._repeats(leader_epoch), self.term
        if repeated and term is not None and term.assigned == frozenset(replicas.assigned):
            self.isr_committed(replicas.in_sync, replicas.partition_epoch)
            self.advance(term.committed_end())
            return
        self._end_role()
        self.leader_epoch = leader_epoch
        self.waiters.refusal = None
        if alone:
            self._alone = True
            upto = log.flushed_offset if self.flushes_on_ack else log.end_offset
            log.high_watermark = Offset(max(log.high_watermark, upto))
            self.log_readable()
        else:
            from headrace.broker.replica.leader_term import LeaderTerm

            self.term = LeaderTerm(self, replicas, now, may_commit)
            self.advance(self.term.committed_end())
        self._count_in_sync()
        self.flush()

    def follow(
        self, leader: BrokerId, leader_epoch: LeaderEpoch, *, unclean: bool = False
    ) -> "Follower":
        """Follow `leader`; waiting requests get NOT_LEADER_OR_FOLLOWER. The log is unchanged.

        ApiError: as `lead`.
        """
        if self._repeats(leader_epoch) and self.follower is not None:
            return self.follower
        from headrace.broker.replica.follower import Follower

        self.resign()
        self.leader_epoch = leader_epoch
        self.follower = Follower(self, leader, unclean=unclean)
        self.flush()
        return self.follower

    def resign(self, because: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Stop leading or following; waiting and later requests get `because`."""
        if not self.closed:
            self._resign(because)

    def _resign(self, because: ErrorCode) -> None:
        served = self.waiters.refusal is None or self.follower is not None
        self._end_role()
        self.waiters.refuse(because)
        if served:
            wake(self._watchers)

    def close(self, because: ErrorCode) -> None:
        """Stop serving for good; waiting requests get `because`. The log is unchanged."""
        if self.closed:
            return
        self.log.unlisten(self)
        self.closed = True  # first: watchers of replicas look at it
        self._resign(because)

    def _repeats(self, leader_epoch: LeaderEpoch) -> bool:
        """Return whether that is the current epoch. ApiError if it is older or the role is
        closed."""
        if self.closed:
            raise ApiError(self.waiters.refusal or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        return leader_epoch == self.leader_epoch

    def _end_role(self) -> None:
        term, follower = self.term, self.follower
        self.term = self.follower = None
        self._alone = False
        if follower is not None:
            follower.ended = True
        if term is not None:
            term.end()

    def isr_committed(self, in_sync: tuple[BrokerId, ...], partition_epoch: int) -> None:
        """Apply the ISR that the controller has written. Requires a term."""
        term = self.term
        invariant(term is not None, f"{self.log!r} is not led with followers")
        if term is not None and term.isr_committed(in_sync, partition_epoch):
            self._count_in_sync()

    def reconfigured(self) -> None:
        """Apply the log's new settings."""
        self._count_in_sync()
        if self.term is not None:
            self.advance(self.term.committed_end())

    def _count_in_sync(self) -> None:
        before = self.too_few_replicas
        self.too_few_replicas = self.term is not None and self.term.too_few_in_sync
        if self.too_few_replicas:
            self.waiters.too_few_replicas()
        elif before:
            wake(self._watchers)  # some wait to append

    @property
    def knows_end(self) -> bool:
        """Whether the end offset may be returned to clients.

        Not before everything committed under earlier leaders is known (KIP-207).
        """
        return self.term is None or self.term.knows_end

    def flush(self) -> None:
        """Request a flush of unflushed records if the high watermark waits for it."""
        if self.flushes_on_ack and self.log.flushed_offset < self.log.end_offset:
            self._flush_soon(self.log)

    @property
    def awaits_own_flush(self) -> bool:
        """Whether only this broker's flush keeps the high watermark below the log's end.

        Then a producer with acks=0 or 1 may have an answer for records that are not readable yet.
        """
        log, term = self.log, self.term
        if not self.flushes_on_ack or log.high_watermark >= log.end_offset:
            return False
        return self._alone or (term is not None and term.leads_alone)

    def when_flushed(self, done: Done[ApiError | None]) -> None:
        """Flush now if readers wait only for that; then call `done(None)`.

        For requests for the end offset: a client with an answer to acks=1 expects its records
        below. Errors as in `CommitWaiters.when_committed`.
        """
        if not self.awaits_own_flush:
            done(None)
            return
        self.waiters.when_committed(self.log.end_offset, done)
        self.flush()

    def advance(self, upto: Offset) -> None:
        """Move the high watermark up to `upto`; publish it to readers of the files first."""
        if upto > self.log.high_watermark:
            self.log.high_watermark = upto
            self.log.context.events.publish((self.log,))
            self.log_readable()

    def look_again(self) -> None:
        """Wake watchers, as a follower's log start has changed."""
        wake(self._watchers)

    def settle_unflushed(self) -> None:
        """Commit appended records without waiting for a flush, as far as replicas allow."""
        upto = self.log.end_offset if self._alone else self._committed_end()
        if upto > self.log.high_watermark:
            self.log.high_watermark = upto
            self.log_readable()

    def _committed_end(self) -> Offset:
        """Return the limit of the high watermark if there are other replicas."""
        role = self.term or self.follower
        return self.log.high_watermark if role is None else role.committed_end()

    def log_flushed(self, upto: Offset) -> None:
        """Advance the high watermark after a flush of the log."""
        log = self.log
        if self._alone:
            if self.flushes_on_ack and upto > log.high_watermark:
                log.high_watermark = upto
        elif (end := self._committed_end()) > log.high_watermark:
            log.high_watermark = end

    def log_readable(self) -> None:
        """Release waiting requests up to the high watermark, and wake watchers."""
        mark, start = self.log.high_watermark, self.log.start_offset
        if self._announced == mark and self._announced_start == start:
            return
        self._announced, self._announced_start = mark, start
        waiters = self.waiters
        if waiters.waiting:
            waiters.release()
        if self._watchers:
            wake(self._watchers)

    def flush_on_ack(self, wanted: bool) -> None:
        """Set whether the high watermark waits for flushes. It advances if it no longer waits."""
        self.flushes_on_ack = wanted
        if wanted:
            self._flush_soon(self.log)
        else:
            self.settle_unflushed()
