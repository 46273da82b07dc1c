"""One partition's records on their way to those who share it: read, handed out, timed, kept.

It reads ahead of a cursor, below what is readable and never above; it times all leases by one
deadline, and has what changes kept. What a holder settles is answered once that is durable. Who
waits for records watches: it is told of what comes back, and of what is committed.

Share groups and queues stand on this. Nothing here waits.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.watchable import Watched
from headrace.delivery.batches import Stretch, covering, stretches
from headrace.delivery.cursor import Cursor
from headrace.delivery.record_states import Acquired
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.delivery.cursor_state import CursorStore
    from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
    from headrace.log.segment.transaction_index import AbortedTransaction
    from headrace.ports.deadlines import Deadlines
    from headrace.ports.disk import Buffer

_READ_BYTES_MIN = 64 * 1024


class Look(NamedTuple):
    """What might be handed out: where it begins, and its bytes or that they are on the disk."""

    at: int
    below: int
    found: "ReadResult | NeedsDisk"
    read_committed: bool


class Taken(NamedTuple):
    """What is handed out: which records, in which whole batches."""

    acquired: list[Acquired]
    records: list[memoryview]


class Asked(NamedTuple):
    """Who is to have records, how many, and for how long."""

    holder: Hashable
    records_max: int
    exactly: bool
    """No more than `records_max`, though a batch has more."""
    seconds: float | None
    """They come back after that; None: when the holder goes."""


class PartitionDelivery(Watched):
    """Drives the cursor of one partition, from `begin` to `stop`."""

    def __init__(
        self,
        partition: "Partition",
        deadlines: "Deadlines",
        *,
        expired: Callable[[int], None],
        failed: Callable[[ApiError], None],
    ) -> None:
        """`expired` is told how many records came back because they were out for too long;
        `failed` that a change could not be kept: what is kept is to be read again, after `stop`."""
        super().__init__()
        self.partition = partition
        self.cursor = Cursor(0)
        self.error: ApiError | None = None
        """Why it has stopped."""
        self._clock = deadlines.clock
        self._deadline = deadlines.deadline(self._time_is_up)
        self._expired = expired
        self._failed = failed
        self._store: CursorStore | None = None
        """Only while it drives the cursor."""
        self._spared = False
        """Whether the last records handed out go alone, so that no others may follow them."""
        self._record_bytes = 256.0
        """Of a record, by what was read last."""

    def begin(self, cursor: Cursor, store: "CursorStore") -> None:
        """Hand out what `cursor` wants; its changes go to `store`."""
        self.cursor = cursor
        self._store = store
        cursor.forget_below(self.partition.log_start_offset)
        self._changed(_not_waited_for) if cursor.change_is_due else self._arm()
        self._wake()

    def stop(self, error: ApiError) -> None:
        """Hand out nothing any more. Whoever waits is told."""
        self.error = error
        self._store = None
        self._deadline.cancel()
        self._wake()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever more may be had: come back, committed, or nothing any more."""
        if not self._watchers:
            self.partition.watch(self._wake)
        super().watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Call `callback` no more; one that does not watch is ignored."""
        super().unwatch(callback)
        if not self._watchers:
            self.partition.unwatch(self._wake)

    # Handing out

    def bytes_wanted(self, bytes_max: int, records_max: int) -> int:
        """Return the bytes to read for about so many records, by what records here were like."""
        return min(bytes_max, max(int(2 * records_max * self._record_bytes), _READ_BYTES_MIN))

    def look(
        self, bytes_max: int, records_max: int, *, read_committed: bool, at_least_one: bool
    ) -> Look | None:
        """Return what might be handed out now, None where there is nothing; nothing changes by it.

        ApiError: what `Partition.read` raises.
        """
        cursor, partition = self.cursor, self.partition
        if self._store is None:
            return None
        cursor.forget_below(partition.log_start_offset)
        below = partition.readable_end(read_committed)
        at = cursor.next_offset(self._clock.monotonic())
        if at >= below or (at >= cursor.end and cursor.room == 0):
            return None
        found = partition.read(
            Offset(at),
            self.bytes_wanted(bytes_max, records_max),
            read_committed=read_committed,
            at_least_one=at_least_one,
        )
        return Look(at, below, found, read_committed)

    def take(self, look: Look, read: "ReadResult", asked: Asked) -> Taken:
        """Hand out of what was read where `look` says, about as many records as are asked for.

        Up to the end of the batch in which that many are reached, unless `exactly`. Empty where
        others have come first, or where there is nothing but markers and gaps.
        """
        taken = Taken([], [])
        if self._store is None:
            return taken
        span: list[Stretch] = []
        left = asked.records_max
        self._spared = False
        data = read.data
        aborted: Sequence[AbortedTransaction] = ()
        if look.read_committed and len(data):
            aborted = self.partition.log.aborted_transactions(Offset(look.at), read.next_offset)
        for stretch in stretches(data, look.at, aborted):
            if stretch.wanted:
                left -= stretch.last - stretch.first + 1
                span.append(stretch)
                if left > 0:
                    continue
            if span:
                self._take_span(taken, data, span, asked)
                span = []
                left = asked.records_max - _count(taken.acquired)
            if left <= 0 or self._spared:
                break
            if not stretch.wanted and stretch.first <= self.cursor.end:
                self.cursor.archive(stretch.first, stretch.last, keep=False)
        if span:
            self._take_span(taken, data, span, asked)
        if len(data):
            self._record_bytes = len(data) / max(read.next_offset - look.at, 1)
        if self.cursor.change_is_due:
            self._changed(_not_waited_for)
        else:
            self._arm()
        return taken

    def _take_span(self, taken: Taken, data: "Buffer", span: list[Stretch], asked: Asked) -> None:
        """Hand out neighbouring batches; the window is passed within one batch at most."""
        cursor = self.cursor
        left = asked.records_max - _count(taken.acquired)
        last = span[-1].last
        if last >= cursor.end:
            if cursor.room == 0:
                last = cursor.end - 1
            else:
                edge = max(cursor.end, span[0].first) + cursor.room - 1
                last = min(
                    last, next((stretch.last for stretch in span if stretch.last >= edge), last)
                )
                last = min(last, edge) if asked.exactly else last
        now = self._clock.monotonic()
        if cursor.next_offset(now) < cursor.end:
            upto = cursor.last_together(span[0].first, last, others=bool(taken.acquired))
            if upto is not None:
                last, self._spared = upto, True
        if last < span[0].first or left <= 0:
            return
        acquired = cursor.acquire(
            span[0].first,
            last,
            asked.holder,
            now=now,
            deadline=None if asked.seconds is None else now + asked.seconds,
            limit=left if asked.exactly else None,
        )
        taken.acquired.extend(acquired)
        taken.records.extend(covering(data, span, acquired))

    # What has changed

    def changed(self, done: Done[ApiError | None]) -> None:
        """Have what is new of the cursor kept, `done` once it is; wake those for whom there is
        more now."""
        self._changed(done)
        self._wake()

    def _changed(self, done: Done[ApiError | None]) -> None:
        self._arm()
        store, cursor = self._store, self.cursor
        if store is None:
            done(self.error)
            return
        change = cursor.take_change()
        if change is None:
            store.when_settled(lambda: done(self.error))
            return

        def written(error: ApiError | None) -> None:
            if error is not None:
                self._failed(error)
            else:
                room = cursor.room
                cursor.kept(change)
                if cursor.room > room:
                    self._wake()
            done(error)

        store.write(change, written)

    def _time_is_up(self) -> None:
        """Take back what is out for too long; what had to wait until now may be had, too."""
        if self._store is None:
            return
        overdue = self.cursor.expire(self._clock.monotonic())
        self._expired(sum(run.last - run.first + 1 for run in overdue))
        self.changed(_not_waited_for)

    def _arm(self) -> None:
        at = self.cursor.next_deadline()
        if at is None or self._store is None:
            self._deadline.cancel()
        else:
            self._deadline.set(max(at - self._clock.monotonic(), 0.0))


def _count(acquired: list[Acquired]) -> int:
    return sum(run.last - run.first + 1 for run in acquired)


def _not_waited_for(error: ApiError | None) -> None:
    """Ignore the outcome: nobody asked, and `failed` is told of an error."""
