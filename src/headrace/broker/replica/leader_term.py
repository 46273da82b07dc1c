"""A broker's term as the leader of a partition: how far its replicas let the high watermark go."""

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


class Led(Protocol):
    """The partition of a term."""

    @property
    def log(self) -> Log: ...
    @property
    def flushes_on_ack(self) -> bool: ...
    def advance(self, upto: Offset) -> None: ...
    def look_again(self) -> None: ...


class LeaderTerm(Watched):
    """What a leader knows of its followers. It ends with the partition's next role.

    A partition without other replicas is not asked here: its own flush decides. Who watches it is
    told of the log's end, which followers read up to, and of the term's.
    """

    __slots__ = ("_isr", "_led", "_may_commit", "ended")

    def __init__(
        self, led: Led, replicas: Replicas, now: float, may_commit: Callable[[], bool]
    ) -> None:
        """Begin at the log's end. `may_commit`: whether the lease on leading holds."""
        super().__init__()
        self._led = led
        self._may_commit = may_commit
        self._isr = InSyncReplicas(replicas, led.log.end_offset, now)
        self.ended = False

    def end(self) -> None:
        """Take nothing any more; followers are to look who leads."""
        self.ended = True
        self._wake()

    def log_grew(self) -> None:
        """Note that more was appended."""
        if self._watchers:
            self._wake()

    @property
    def start(self) -> Offset:
        """The log's end when the term began."""
        return self._isr.start

    @property
    def assigned(self) -> frozenset[BrokerId]:
        """All that hold a replica, or are to hold one."""
        return self._isr.assigned

    @property
    def in_sync(self) -> frozenset[BrokerId]:
        """The committed ISR, which `min.insync.replicas` counts."""
        return self._isr.in_sync

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """The committed ISR and those of a pending change, which the high watermark waits for."""
        return self._isr.maximal

    @property
    def pending(self) -> IsrChange | None:
        """The change that the controller is to be asked for, until it has answered."""
        return self._isr.pending

    @property
    def partition_epoch(self) -> int:
        """The partition's epoch as the controller wrote it last."""
        return self._isr.partition_epoch

    @property
    def knows_end(self) -> bool:
        """Whether the high watermark has reached the term's start (KIP-207)."""
        return self._led.log.high_watermark >= self._isr.start

    @property
    def in_sync_needed(self) -> int:
        """`min.insync.replicas`; all replicas where there are fewer, as Kafka has it."""
        return min(self._led.log.config.min_insync_replicas, len(self.assigned))

    @property
    def too_few_in_sync(self) -> bool:
        """Whether the committed ISR is smaller than that."""
        return len(self._isr.in_sync) < self.in_sync_needed

    @property
    def leads_alone(self) -> bool:
        """Whether the high watermark waits for the own log only, and may move."""
        isr = self._isr
        return len(isr.maximal) == 1 and not self.too_few_in_sync and self._may_commit()

    def committed_end(self) -> Offset:
        """Return how far the high watermark may go now; 0 where it is to stand still.

        It stands still while the committed ISR is too small, and where the leader is alone in it
        while its lease is in doubt: another may lead by then.
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
        """Note where a follower is; an ISR to ask the controller for, where it may join or must go.

        `may_join`: whether its broker is registered as it says. ApiError: NOT_LEADER_OR_FOLLOWER
        where the term is over.
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
        return self._isr.join(fetch.replica, mark, flushed=led.flushes_on_ack)

    def lowest_start(self, living: Container[BrokerId]) -> Offset:
        """Return where the log of each living replica begins at the latest."""
        return self._isr.lowest_start(self._led.log.start_offset, living)

    def ends_in_sync(self, offset: Offset) -> Iterator[tuple[BrokerId, Offset]]:
        """Yield the followers in sync that hold `offset`, and where their logs end."""
        for replica in self._isr.in_sync:
            known = self._isr.progress(replica)
            if known is not None and known.log_start <= offset <= known.log_end:
                yield replica, known.log_end

    def lag_max(self) -> int:
        """Return by how many offsets the replica that lags most ends before the leader."""
        log = self._led.log
        return self._isr.lag_max(log.start_offset, log.end_offset)

    def was_caught_up(self, replica: BrokerId, at: float) -> None:
        """Note that a follower that has all was there still at that time."""
        self._isr.was_caught_up(replica, at)

    def shrink(self, now: float, lag_seconds_max: float) -> IsrChange | None:
        """Return an ISR to ask the controller for, without those that lag.

        Those that lag count until it answers.
        """
        self._check()
        return self._isr.shrink(self._led.log.end_offset, now, lag_seconds_max)

    def isr_committed(self, in_sync: tuple[BrokerId, ...], partition_epoch: int) -> bool:
        """Take the ISR that the controller has written; False where that is old news."""
        self._check()
        before = self._isr.in_sync
        news = self._isr.committed(in_sync, partition_epoch)
        if news:
            self._led.advance(self.committed_end())
            if before - self._isr.in_sync:
                self._wake()  # who has left may join again with what he has said
        return news

    def isr_answer_lost(self) -> None:
        """Note that the pending change may have been written, or not. Ask for it again."""
        self._isr.answer_lost()

    def isr_refused(self) -> IsrChange | None:
        """Note that the controller has refused the pending change; what to ask for instead."""
        self._check()
        instead = self._isr.refused()
        self._led.advance(self.committed_end())
        return instead

    def lease_renewed(self) -> None:
        """Let the high watermark go on where the lease had it stand still."""
        self._check()
        self._led.advance(self.committed_end())

    def _check(self) -> None:
        if self.ended:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self._led.log!r}: the term is over")
