"""`LeaderTerm`: a leader's followers, and how far they let the high watermark advance."""

from collections.abc import Callable, Container, Iterator
from typing import Protocol

from headrace.broker.replica.in_sync_replicas import (
    InSyncReplicas,
    IsrChange,
    ReplicaFetch,
    Replicas,
)
from headrace.broker.watchable import Watched
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, Offset

_NOWHERE = Offset(0)


def _nothing() -> None:
    """Do nothing: the default of `LeaderTerm.isr_changed`."""


class Led(Protocol):
    """The interface of a partition role to the `LeaderTerm` that it owns."""

    @property
    def log(self) -> Log: ...
    @property
    def flushes_on_ack(self) -> bool: ...
    def advance(self, upto: Offset) -> None: ...
    def look_again(self) -> None: ...


class LeaderTerm(Watched):
    """A broker's leadership of a partition with followers. It ends with the partition's next role.

    A partition without other replicas has no term: its own flush commits. Watchers are called when
    the log's end moves, up to which followers read, and when the term ends.
    """

    __slots__ = ("_isr", "_led", "_may_commit", "ended", "isr_changed")

    def __init__(
        self, led: Led, replicas: Replicas, now: float, may_commit: Callable[[], bool]
    ) -> None:
        """Begin at the log's end; `may_commit`: whether the leadership lease holds."""
        super().__init__()
        self._led = led
        self._may_commit = may_commit
        self._isr = InSyncReplicas(replicas, led.log.end_offset, now)
        self.ended = False
        self.isr_changed: Callable[[], None] = _nothing
        """Called when the maximal or the committed ISR may have changed, before it is requested."""

    def end(self) -> None:
        """End the term and wake the followers' fetches, which then find the new leader."""
        self.ended = True
        self._wake()

    def log_grew(self) -> None:
        """Wake watchers, such as followers' waiting fetches, after an append."""
        if self._watchers:
            self._wake()

    @property
    def start(self) -> Offset:
        """The log's end offset when the term began."""
        return self._isr.start

    @property
    def assigned(self) -> frozenset[BrokerId]:
        """All assigned replicas."""
        return self._isr.assigned

    @property
    def in_sync(self) -> frozenset[BrokerId]:
        """The committed ISR, which `min.insync.replicas` counts."""
        return self._isr.in_sync

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """The committed ISR and the members of a pending change; the high watermark waits for
        them."""
        return self._isr.maximal

    @property
    def pending(self) -> IsrChange | None:
        """The ISR change to request from the controller, until it has answered; else None."""
        return self._isr.pending

    @property
    def partition_epoch(self) -> int:
        """The partition epoch that the controller wrote last."""
        return self._isr.partition_epoch

    @property
    def knows_end(self) -> bool:
        """Whether the high watermark has reached the term's start (KIP-207)."""
        return self._led.log.high_watermark >= self._isr.start

    @property
    def in_sync_needed(self) -> int:
        """`min.insync.replicas`; the number of replicas if that is smaller, as in Kafka."""
        return min(self._led.log.config.min_insync_replicas, len(self.assigned))

    @property
    def too_few_in_sync(self) -> bool:
        """Whether the committed ISR is smaller than `in_sync_needed`."""
        return len(self._isr.in_sync) < self.in_sync_needed

    @property
    def leads_alone(self) -> bool:
        """Whether the high watermark waits only for the own log, and may move."""
        isr = self._isr
        return len(isr.maximal) == 1 and not self.too_few_in_sync and self._may_commit()

    def committed_end(self) -> Offset:
        """Return the limit of the high watermark now; 0 if it must not move.

        It must not move while the committed ISR is too small, or while the leader is alone in it
        and its lease is in doubt: another broker may lead by then.
        """
        isr, led = self._isr, self._led
        log, flushed = led.log, led.flushes_on_ack
        if self.too_few_in_sync:
            return _NOWHERE
        if isr.alone and not self._may_commit():
            return _NOWHERE
        own = log.flushed_offset if flushed else log.end_offset
        return isr.lowest_end(own, flushed=flushed)

    def note_fetch(
        self, fetch: ReplicaFetch, now: float, *, may_join: bool = True
    ) -> IsrChange | None:
        """Record a follower's fetch; return an ISR change to request, if it may join or must leave.

        `may_join`: whether its broker is registered under this epoch. ApiError:
        NOT_LEADER_OR_FOLLOWER if the term has ended.
        """
        self._check()
        led = self._led
        former = self._isr.progress(fetch.replica)
        start = None if former is None else former.log_start
        if not self._isr.note_fetch(fetch, led.log.end_offset, now):
            return None
        if fetch.log_start != start:
            led.look_again()
        led.advance(self.committed_end())
        mark = led.log.high_watermark
        if fetch.log_end < mark and fetch.replica in self._isr.in_sync:
            return self._isr.leave(fetch.replica, mark)
        if not may_join:
            return None
        joins = self._isr.join(fetch.replica, mark, flushed=led.flushes_on_ack)
        if joins is not None:
            self.isr_changed()
        return joins

    def lowest_start(self, living: Container[BrokerId]) -> Offset:
        """Return the greatest log start among the living replicas."""
        return self._isr.lowest_start(self._led.log.start_offset, living)

    def ends_in_sync(self, offset: Offset) -> Iterator[tuple[BrokerId, Offset]]:
        """Yield (follower, end offset) of the in-sync followers that have `offset`."""
        for replica in self._isr.in_sync:
            known = self._isr.progress(replica)
            if known is not None and known.log_start <= offset <= known.log_end:
                yield replica, known.log_end

    def lag_max(self) -> int:
        """Return by how many offsets the slowest replica's end is below the leader's."""
        log = self._led.log
        return self._isr.lag_max(log.start_offset, log.end_offset)

    def was_caught_up(self, replica: BrokerId, at: float) -> None:
        """Record that a follower without new fetches still had all records at time `at`."""
        self._isr.was_caught_up(replica, at)

    def shrink(self, now: float, lag_seconds_max: float) -> IsrChange | None:
        """Return an ISR change that removes lagging members, or None.

        They count until the controller answers.
        """
        self._check()
        return self._isr.shrink(self._led.log.end_offset, now, lag_seconds_max)

    def leave_silent(self, silent: Container[BrokerId]) -> IsrChange | None:
        """Return an ISR change that removes members in `silent`, which answer no pings, or None."""
        self._check()
        return self._isr.leave_silent(silent)

    def isr_committed(self, in_sync: tuple[BrokerId, ...], partition_epoch: int) -> bool:
        """Apply the ISR that the controller has written; return False if it is outdated."""
        self._check()
        before = self._isr.in_sync
        news = self._isr.committed(in_sync, partition_epoch)
        if news:
            self.isr_changed()
            self._led.advance(self.committed_end())
            if before - self._isr.in_sync:
                self._wake()  # a removed member may rejoin by a new fetch
        return news

    def isr_answer_lost(self) -> None:
        """Note that the pending change may or may not have been written; request it again."""
        self._isr.answer_lost()

    def isr_refused(self) -> IsrChange | None:
        """Note that the controller refused the pending change; return another request, or None."""
        self._check()
        instead = self._isr.refused()
        self.isr_changed()
        self._led.advance(self.committed_end())
        return instead

    def lease_renewed(self) -> None:
        """Advance the high watermark after a lease in doubt was renewed."""
        self._check()
        self._led.advance(self.committed_end())

    def _check(self) -> None:
        if self.ended:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self._led.log!r}: this broker no longer leads it",
            )
