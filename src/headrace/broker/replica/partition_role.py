"""The role in which a broker holds a partition: it leads, it follows, or neither.

A role changes by `lead`, `follow`, `resign` and `close`; the log stays as it is. The high watermark
is the log's, moved here and nowhere else: by the own flush where there is no other replica, else as
far as the leader's term or the leader that is followed allows. It never goes back by this.
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
    """Tell that the lease holds: nobody could take it."""
    return True


def ask_nobody(partition: object) -> None:
    """Do nothing: there is no controller to ask for another ISR."""


class PartitionRole:
    """A partition's present role, and its high watermark. Listens to its log."""

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
        """Take no role yet. `watchers`, those of the partition, are told to look again.

        They are handed over without the partition: one that is deleted is gone at once where
        nothing below it leads back to it, and else not before the garbage collector looks.
        """
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.term: LeaderTerm | None = None
        """What the leader knows of its followers; None where there are none, or it leads not."""
        self.follower: Follower | None = None
        """What is known of the leader that is followed."""
        self.closed = False
        self.flushes_on_ack = flush_on_ack
        self.too_few_replicas = False
        """Whether the committed ISR is smaller than `min.insync.replicas` asks for."""
        self.waiters = CommitWaiters(log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._watchers = watchers
        self._flush_soon = flusher.flush_soon
        self._alone = False
        """Whether it leads and there is no other replica: its own flush commits."""
        if flush_on_ack:  # what was committed before counts as far as it was flushed (G12)
            log.high_watermark = Offset(min(log.high_watermark, log.flushed_offset))
        self._announced = log.high_watermark
        self._announced_start = log.start_offset
        log.listen(self)

    def move_to(self, log: Log, flusher: Flusher) -> None:
        """Go on in a copy of the log, flushed to its end. Who listens to the log hears the copy."""
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
        """Lead from the log's end on under `leader_epoch`, which no append may have used before.

        Asked again in the same epoch: only what is new of the ISR counts. `now`: monotonic seconds.
        `may_commit`: whether the lease holds, asked where nobody else is in the committed ISR.
        ApiError: FENCED_LEADER_EPOCH for an older epoch; why it is closed.
        """
        alone, log = len(replicas.assigned) == 1, self.log
        repeated, term = self._repeats(leader_epoch), self.term
        if repeated and term is not None and term.assigned == frozenset(replicas.assigned):
            self.isr_committed(replicas.in_sync, replicas.partition_epoch)
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
        """Follow `leader`; who waits is told NOT_LEADER_OR_FOLLOWER. Nothing of the log goes.

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
        """Lead and follow no more, until asked to; who waits, and who asks, is told `because`."""
        if self.closed:
            return
        served = self.waiters.refusal is None or self.follower is not None
        self._end_role()
        self.waiters.refuse(because)
        if served:
            wake(self._watchers)

    def close(self, because: ErrorCode) -> None:
        """Serve nothing any more, for good; who waits is told `because`. The log is not touched."""
        if self.closed:
            return
        self.log.unlisten(self)
        self.resign(because)
        self.closed = True

    def _repeats(self, leader_epoch: LeaderEpoch) -> bool:
        """Tell whether that is the present epoch. ApiError where it is older, or all is over."""
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
        """Take the ISR that the controller has written. Only where there is a term."""
        term = self.term
        invariant(term is not None, f"{self.log!r} is not led with followers")
        if term is not None and term.isr_committed(in_sync, partition_epoch):
            self._count_in_sync()

    def reconfigured(self) -> None:
        """Take the log's new settings."""
        self._count_in_sync()
        if self.term is not None:
            self.advance(self.term.committed_end())

    def _count_in_sync(self) -> None:
        self.too_few_replicas = self.term is not None and self.term.too_few_in_sync
        if self.too_few_replicas:
            self.waiters.too_few_replicas()

    @property
    def knows_end(self) -> bool:
        """Whether clients may be told where the log ends: not before all that was committed under
        earlier leaders is known to be (KIP-207)."""
        return self.term is None or self.term.knows_end

    def flush(self) -> None:
        """Have what is not flushed yet made durable, where the high watermark waits for it."""
        if self.flushes_on_ack and self.log.flushed_offset < self.log.end_offset:
            self._flush_soon(self.log)

    @property
    def awaits_own_flush(self) -> bool:
        """Whether only this broker's flush keeps the high watermark from the log's end.

        Then a producer with acks=0 or 1 may have an answer for records that are not readable yet.
        """
        log, term = self.log, self.term
        if not self.flushes_on_ack or log.high_watermark >= log.end_offset:
            return False
        return self._alone or (term is not None and term.leads_alone)

    def when_flushed(self, done: Done[ApiError | None]) -> None:
        """Flush at once, where readers wait for no more than that; then `done(None)`.

        For requests that ask where the log ends: a client that has the answer to its acks=1 counts
        on it. `done` is told what `CommitWaiters.when_committed` says.
        """
        if not self.awaits_own_flush:
            done(None)
            return
        self.waiters.when_committed(self.log.end_offset, done)
        self.flush()

    def advance(self, upto: Offset) -> None:
        """Move the high watermark up to `upto`, for a role; readers of the files are told first."""
        if upto > self.log.high_watermark:
            self.log.high_watermark = upto
            self.log.context.events.publish((self.log,))
            self.log_readable()

    def look_again(self) -> None:
        """Tell those who watch the partition that a follower's log begins elsewhere."""
        wake(self._watchers)

    def settle_unflushed(self) -> None:
        """Commit what was just appended without waiting for its flush, as far as that may be."""
        upto = self.log.end_offset if self._alone else self._committed_end()
        if upto > self.log.high_watermark:
            self.log.high_watermark = upto
            self.log_readable()

    def _committed_end(self) -> Offset:
        """Return how far the high watermark may go, where there are other replicas."""
        role = self.term or self.follower
        return self.log.high_watermark if role is None else role.committed_end()

    def log_flushed(self, upto: Offset) -> None:
        """Do as `LogListener` says."""
        log = self.log
        if self._alone:
            if self.flushes_on_ack and upto > log.high_watermark:
                log.high_watermark = upto
        elif (end := self._committed_end()) > log.high_watermark:
            log.high_watermark = end

    def log_readable(self) -> None:
        """Tell who waits what the high watermark has passed, and of a new start (`LogListener`)."""
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
        """Change what the high watermark means from now on; it never goes back."""
        self.flushes_on_ack = wanted
        if wanted:
            self._flush_soon(self.log)
        else:
            self.settle_unflushed()
