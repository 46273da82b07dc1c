"""One partition as one share group sees it: its cursor, its log, and where its state is kept.

* What a member settles is answered once that is durable; what it is handed is not written anywhere:
  after a restart it is handed out again (Kafka's SharePartition does the same).
* A write that fails ends this object: the next fetch begins anew from what is kept.
* Records go when the log's front goes; nobody's lock holds retention back.

Nothing here waits. Whoever waits for records watches, and looks again when called.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.watchable import Watched
from headrace.coordination.delivery.cursor import Cursor
from headrace.coordination.delivery.cursor_state import CursorState
from headrace.coordination.delivery.record_states import Acquired, NotHeld, StateBatch
from headrace.coordination.share.acknowledgements import OUTCOMES, Ack, AckKind
from headrace.coordination.share.batches import Stretch, covering, stretches
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.start_offset import find_start
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.share.settings import GroupSettings
    from headrace.coordination.share.counts import ShareCounts
    from headrace.coordination.share.state_port import ShareStatePort, StateRead
    from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
    from headrace.log.segment.transaction_index import AbortedTransaction
    from headrace.ports.deadlines import Deadlines
    from headrace.ports.disk import Buffer, Disk

_READ_BYTES_MIN = 64 * 1024


class SharePartitionState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    ENDED = "ended"


class Look(NamedTuple):
    """What might be handed out: where it begins, and its bytes or that they are on the disk."""

    at: int
    below: int
    found: "ReadResult | NeedsDisk"


class Taken(NamedTuple):
    """What is handed out: which records, in which whole batches."""

    acquired: list[Acquired]
    records: list[memoryview]


class SharePartition(Watched):
    """For as long as this broker leads the partition and nothing fails."""

    def __init__(
        self,
        key: ShareKey,
        partition: "Partition",
        *,
        states: "ShareStatePort",
        settings: "GroupSettings",
        deadlines: "Deadlines",
        disk: "Disk",
        ended: Callable[["SharePartition"], None],
        counts: "ShareCounts",
    ) -> None:
        """`ended` is told once it can be used no more."""
        super().__init__()
        self._counts = counts
        self.key = key
        self.partition = partition
        self.state = SharePartitionState.LOADING
        self.error: ApiError | None = None
        """Why it ended."""
        self._states = states
        self._settings = settings
        self._clock = deadlines.clock
        self._disk = disk
        self._ended = ended
        self._deadline = deadlines.deadline(self._time_is_up)
        self._cursor = Cursor(0)
        self._state_epoch = 0
        self._loading: list[Done[ApiError | None]] = []
        self._record_bytes = 256.0
        """Of a record, by what was read last."""

    # Coming and going

    def load(self) -> None:
        """Find out what is kept; `when_loaded` tells when that is done."""
        self._states.read(self.key, self.partition.leader_epoch, self._load)

    def when_loaded(self, done: Done[ApiError | None]) -> None:
        """Call `done(None)` once records can be had, `done(error)` where they cannot."""
        if self.state is SharePartitionState.LOADING:
            self._loading.append(done)
        else:
            done(self.error)

    def end(self, error: ApiError) -> None:
        """Be used no more. Whoever waits is told."""
        if self.state is SharePartitionState.ENDED:
            return
        self.state = SharePartitionState.ENDED
        self.error = error
        self._deadline.cancel()
        self._ended(self)
        self._tell_loaded()
        self._wake()

    def _load(self, kept: "StateRead | ApiError | None") -> None:
        if self.state is not SharePartitionState.LOADING:
            return  # it has ended while its state was read
        if isinstance(kept, ApiError):
            self.end(kept)
            return
        if kept is None:
            self.end(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the group has no state there"))
            return
        self._state_epoch = kept.state_epoch
        if kept.known.start == NOT_SET:
            strategy = self._settings.offset_reset(self.key.group)
            find_start(self.partition, strategy, self._clock.wall_ms(), self._disk, self._begin)
            return
        end = self.partition.log.end_offset
        if kept.known.start > end:
            # The log lost its tail: what comes there now is new, whoever had what was there.
            self._states.initialize([(self.key, end)], self._state_epoch + 1, self._reloaded)
            return
        known = CursorState(kept.known.start, _below(kept.known.batches, end))
        self._serve(Cursor.restored(known))

    def _reloaded(self, error: ErrorCode | None) -> None:
        if error is None:
            self.load()
        else:
            self.end(ApiError(error))

    def _begin(self, start: int | ApiError) -> None:
        """Keep where the group begins, so that a restart changes nothing."""
        if isinstance(start, ApiError):
            self.end(start)
        elif self.state is SharePartitionState.LOADING:
            change = CursorState(start)

            def kept(error: ErrorCode | None) -> None:
                if error is not None:
                    self.end(_as_client_sees(error))
                elif self.state is SharePartitionState.LOADING:
                    self._serve(Cursor(start))

            epoch = self.partition.leader_epoch
            self._states.write(self.key, self._state_epoch, epoch, change, kept)

    def _serve(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._cursor.forget_below(self.partition.log_start_offset)
        self.state = SharePartitionState.ACTIVE
        self._tell_loaded()
        self._wake()

    def _tell_loaded(self) -> None:
        loading, self._loading = self._loading, []
        for done in loading:
            done(self.error)

    # Handing out

    def bytes_wanted(self, bytes_max: int, records_max: int) -> int:
        """Return the bytes to read for about so many records, by what records here were like."""
        return min(bytes_max, max(int(2 * records_max * self._record_bytes), _READ_BYTES_MIN))

    def look(self, bytes_max: int, records_max: int, *, at_least_one: bool) -> Look | None:
        """Return what might be handed out now, None where there is nothing.

        ApiError: why it ended, and what `Partition.read` raises.
        """
        if self.error is not None:
            raise self.error
        if self.state is SharePartitionState.LOADING:
            return None
        cursor, partition = self._cursor, self.partition
        cursor.forget_below(partition.log_start_offset)
        cursor.window = self._settings.window(self.key.group)
        cursor.deliveries_max = self._settings.deliveries_max(self.key.group)
        now = self._clock.monotonic()
        committed = self._settings.read_committed(self.key.group)
        below = partition.readable_end(committed)
        at = cursor.next_offset(now)
        if at >= below or (at >= cursor.end and cursor.room == 0):
            return None
        found = partition.read(
            Offset(at),
            self.bytes_wanted(bytes_max, records_max),
            read_committed=committed,
            at_least_one=at_least_one,
        )
        return Look(at, below, found)

    def take(
        self, look: Look, read: "ReadResult", member: str, *, records_max: int, exactly: bool
    ) -> Taken:
        """Hand out of what was read where `look` says, about `records_max` records.

        Up to the end of the batch in which that many are reached, unless `exactly`. Empty where
        others have come first, or where there is nothing but markers and gaps.
        """
        taken = Taken([], [])
        if self.state is not SharePartitionState.ACTIVE:
            return taken
        span: list[Stretch] = []
        left = records_max
        data = read.data
        for stretch in stretches(data, look.at, self._aborted(look, read)):
            if stretch.wanted:
                left -= stretch.last - stretch.first + 1
                span.append(stretch)
                if left > 0:
                    continue
            if span:
                self._take_span(taken, data, span, member, records_max, exactly)
                span = []
                left = records_max - sum(got.last - got.first + 1 for got in taken.acquired)
            if left <= 0:
                break
            if not stretch.wanted and stretch.first <= self._cursor.end:
                self._cursor.archive(stretch.first, stretch.last, keep=False)
        if span:
            self._take_span(taken, data, span, member, records_max, exactly)
        if len(data):
            self._record_bytes = len(data) / max(read.next_offset - look.at, 1)
        self._arm()
        return taken

    def _take_span(
        self,
        taken: Taken,
        data: "Buffer",
        span: list[Stretch],
        member: str,
        records_max: int,
        exactly: bool,
    ) -> None:
        """Hand out neighbouring batches; the window is passed within one batch at most."""
        cursor = self._cursor
        left = records_max - sum(run.last - run.first + 1 for run in taken.acquired)
        last = span[-1].last
        if last >= cursor.end:
            if cursor.room == 0:
                last = cursor.end - 1
            else:
                edge = max(cursor.end, span[0].first) + cursor.room - 1
                last = min(
                    last, next((stretch.last for stretch in span if stretch.last >= edge), last)
                )
                last = min(last, edge) if exactly else last
        if last < span[0].first or left <= 0:
            return
        now = self._clock.monotonic()
        acquired = cursor.acquire(
            span[0].first,
            last,
            member,
            now=now,
            deadline=now + self._settings.lock_seconds(self.key.group),
            limit=left if exactly else None,
        )
        self._counts.acquired += sum(run.last - run.first + 1 for run in acquired)
        taken.acquired.extend(acquired)
        taken.records.extend(covering(data, span, acquired))

    def _aborted(self, look: Look, read: "ReadResult") -> "Sequence[AbortedTransaction]":
        if not self._settings.read_committed(self.key.group) or not len(read.data):
            return ()
        return self.partition.log.aborted_transactions(Offset(look.at), read.next_offset)

    # What members say

    def acknowledge(self, member: str, acks: Sequence[Ack], done: Done[ApiError | None]) -> None:
        """Settle all of `acks` or nothing; `done` once that is durable.

        ApiError: INVALID_RECORD_STATE where not all of it is with `member`, and what keeps the
        state from being written.
        """
        if self.state is not SharePartitionState.ACTIVE:
            done(self.error or ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        cursor = self._cursor
        try:
            for ack in acks:
                cursor.check_held(member, ack.first, ack.last)
                if ack.kind is AckKind.RENEW and not self._settings.renews(self.key.group):
                    raise NotHeld("Renewing acquisition locks is not enabled for the group.")
        except NotHeld as error:
            done(ApiError(ErrorCode.INVALID_RECORD_STATE, str(error)))
            return
        lock_until = self._clock.monotonic() + self._settings.lock_seconds(self.key.group)
        for ack in acks:
            if ack.kind is AckKind.RENEW:
                cursor.renew(member, ack.first, ack.last, lock_until)
            else:
                cursor.settle(member, ack.first, ack.last, OUTCOMES[ack.kind])
            self._counts.acknowledged(ack)
        self._changed(done)

    def release_member(self, member: str, done: Done[ApiError | None]) -> None:
        """Give what a gone member holds to others; calls `done` once that is durable."""
        if self.state is SharePartitionState.ACTIVE and self._cursor.release_holder(member):
            self._changed(done)
        else:
            done(None)

    def _time_is_up(self) -> None:
        if self.state is SharePartitionState.ACTIVE:
            overdue = self._cursor.expire(self._clock.monotonic())
            self._counts.timed_out += sum(run.last - run.first + 1 for run in overdue)
            self._changed(_not_waited_for)

    def _changed(self, done: Done[ApiError | None]) -> None:
        """Have what is new written; wake those for whom there is more now."""
        self._arm()
        change = self._cursor.take_change()
        if change is None:
            self._states.when_settled(self.key, lambda: done(self.error))
        else:

            def written(error: ErrorCode | None) -> None:
                if error is None:
                    done(None)
                    return
                failed = _as_client_sees(error)
                self.end(failed)
                done(failed)

            epoch = self.partition.leader_epoch
            self._states.write(self.key, self._state_epoch, epoch, change, written)
        self._wake()

    def _arm(self) -> None:
        at = self._cursor.next_deadline()
        if at is None:
            self._deadline.cancel()
        else:
            self._deadline.set(max(at - self._clock.monotonic(), 0.0))

    # What others ask

    @property
    def start(self) -> int:
        """The lowest offset still wanted."""
        return self._cursor.start

    @property
    def out(self) -> int:
        """Records out with members."""
        return self._cursor.out


def _below(batches: Sequence[StateBatch], end: int) -> tuple[StateBatch, ...]:
    """Return what of `batches` is about offsets the log has."""
    return tuple(
        batch._replace(last=min(batch.last, end - 1)) for batch in batches if batch.first < end
    )


_RETRIED = frozenset({
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
})  # fmt: skip


def _as_client_sees(error: ErrorCode) -> ApiError:
    """Return the one error that Kafka's SharePartition has for all coordinators out of reach."""
    if error in _RETRIED:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return ApiError(error)


def _not_waited_for(error: ApiError | None) -> None:
    """Ignore the outcome of locks that ran out: nobody asked."""
