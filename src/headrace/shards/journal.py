"""`Journal`: the appends of one shard: records -> batches -> the partition -> callbacks.

    append_soon ──► waits for the end of the turn ──┐                      ┌─► done(None)
    append_now  ──► behind all that waits ──────────┴─► appended, flushed ─┴─► done(error)

Offset commits are many and small: all of one turn of the event loop share a batch, an append and a
flush. Changes of groups are appended at once, so the log has all records in the order of decision.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID, Offset
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer
from headrace.record.batch import Codec, build_pairs

KeyValue = tuple[bytes, bytes | None]
"""A record of an internal topic, as key and value; a value of None is a tombstone."""


class AppendedBatch(Protocol):
    """The offsets of an appended batch."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def commit_offset(self) -> Offset: ...


class JournalPartition(Protocol):
    """The methods of `broker.partition.Partition` that a journal calls."""

    def append_internal(self, batch: bytes, *, now_ms: int) -> AppendedBatch: ...

    def when_committed(self, commit_offset: Offset, callback: Done[ApiError | None]) -> None: ...


class _Entry(NamedTuple):
    records: Sequence[KeyValue]
    done: Done[ErrorCode | None]
    late: Callable[[], None] | None = None


_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def answer_for(error: ErrorCode) -> ErrorCode:
    """Return the error code that clients get for a failed append (as in Kafka)."""
    return _ANSWERS.get(error, error)


class Journal:
    """The appends of one shard, in order. On the deciding thread."""

    __slots__ = (
        "_bytes_max", "_clock", "_codec", "_failed", "_in_flight", "_open", "_partition",
        "_since", "_timeout", "_timer", "_waiting", "_watch",
    )  # fmt: skip

    def __init__(
        self,
        partition: JournalPartition,
        clock: Clock,
        *,
        bytes_max: int,
        timeout_seconds: float,
        codec: Codec = Codec.NONE,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._bytes_max = bytes_max
        self._codec = codec
        self._waiting: list[_Entry] = []
        self._in_flight: deque[list[_Entry]] = deque()
        self._since: deque[float] = deque()
        """Monotonic time in seconds at which each batch in flight was appended."""
        self._timeout = timeout_seconds
        self._watch: Timer | None = None
        self._timer: Timer | None = None
        self._open = True
        self._failed = ErrorCode.NOT_COORDINATOR

    @property
    def idle(self) -> bool:
        """Whether no append waits or is in flight."""
        return not self._waiting and not self._in_flight

    def append_soon(
        self,
        records: Sequence[KeyValue],
        done: Done[ErrorCode | None],
        late: Callable[[], None] | None = None,
    ) -> None:
        """Append `records` at the end of this turn of the event loop, in one batch with others.

        `done(None)` is called once they are committed, `done(error)` if that fails, in the order of
        calls. `late()` is called before that, perhaps repeatedly, while they are uncommitted for
        longer than the timeout; they may still be committed.
        """
        if not self._open:
            done(self._failed)
            return
        self._waiting.append(_Entry(records, done, late))
        if self._timer is None:
            self._timer = self._clock.call_later(0, self._turn_ends)

    def append_now(self, records: Sequence[KeyValue], done: Done[ErrorCode | None]) -> None:
        """Append waiting records, then `records`.

        On a failure `done` is called before returning.
        """
        if not self._open:
            done(self._failed)
            return
        self._append_waiting()
        self._append([_Entry(records, done)])

    def append_transactional(
        self,
        records: Sequence[KeyValue],
        producer_id: int,
        epoch: int,
        done: Done[ErrorCode | None],
    ) -> None:
        """Append as `append_now` does, in a batch of the producer's open transaction."""
        if not self._open:
            done(self._failed)
            return
        self._append_waiting()
        self._append([_Entry(records, done)], producer_id, epoch)

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call `done` once each earlier append is committed or has failed."""
        if self.idle or not self._open:
            done()
            return

        def settled(_: ErrorCode | None) -> None:
            done()

        last = self._waiting or self._in_flight[-1]
        last.append(_Entry((), settled))

    def close(self, error: ErrorCode) -> None:
        """Close; each uncommitted append, and each later one, ends with `error`."""
        if not self._open:
            return
        self._open = False
        self._failed = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watch is not None:
            self._watch.cancel()
        batches = [*self._in_flight, self._waiting]
        self._in_flight.clear()
        self._since.clear()
        self._waiting = []
        for batch in batches:
            for entry in batch:
                entry.done(error)

    def _turn_ends(self) -> None:
        self._timer = None
        self._append_waiting()

    def _append_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1:
            self._append(waiting)
            return
        batch: list[_Entry] = []
        size = 0
        for entry in waiting:
            bytes_more = sum(len(key) + len(value or b"") + 16 for key, value in entry.records)
            if batch and size + bytes_more > self._bytes_max:
                self._append(batch)
                batch, size = [], 0
            batch.append(entry)
            size += bytes_more
        if batch:
            self._append(batch)

    def _append(
        self, entries: list[_Entry], producer_id: int = NO_PRODUCER_ID, epoch: int = -1
    ) -> None:
        now_ms = self._clock.wall_ms()
        records = [record for entry in entries for record in entry.records]
        if not records:
            self._settle_with_last(entries)
            return
        batch = build_pairs(
            records,
            now_ms,
            compression=self._codec,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        try:
            appended = self._partition.append_internal(batch, now_ms=now_ms)
        except ApiError as error:
            answer = answer_for(error.code)
            for entry in entries:
                entry.done(answer)
            return
        self._in_flight.append(entries)
        self._since.append(self._clock.monotonic())
        if self._watch is None:
            self._watch = self._clock.call_later(self._timeout, self._look_for_late)
        self._partition.when_committed(appended.commit_offset, self._committed)

    def _look_for_late(self) -> None:
        self._watch = None
        if not self._in_flight:
            return
        overdue = self._clock.monotonic() - self._timeout
        for since, entries in zip(tuple(self._since), tuple(self._in_flight), strict=True):
            if since > overdue:
                break
            for entry in entries:
                if entry.late is not None:
                    entry.late()
        self._watch = self._clock.call_later(self._timeout, self._look_for_late)

    def _settle_with_last(self, entries: list[_Entry]) -> None:
        """Settle entries without records together with the last batch in flight."""
        if self._in_flight:
            self._in_flight[-1].extend(entries)
            return
        for entry in entries:
            entry.done(None)

    def _committed(self, error: ApiError | None) -> None:
        # The partition calls back in the order of asking, so the oldest batch is meant.
        if not self._in_flight:
            return  # closed: all were answered then
        answer = None if error is None else answer_for(error.code)
        self._since.popleft()
        for entry in self._in_flight.popleft():
            entry.done(answer)
