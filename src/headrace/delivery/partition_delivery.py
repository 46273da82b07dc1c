"""`PartitionDelivery`: drives the cursor of one partition: reads, acquires, times leases, stores.

It reads records below the readable end, ends leases by one timer, and stores the cursor's changes.
An acknowledgement is answered once it is durable. A consumer that waits for records watches the
delivery, which calls it when records are released or committed.

Share groups and queues use it. Nothing here blocks.
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
    """Data that may be acquired: its first offset, and the data, unless it is on the disk."""

    at: int
    below: int
    found: "ReadResult | NeedsDisk"
    read_committed: bool


class Taken(NamedTuple):
    """Acquired offsets, and the whole batches that hold them."""

    acquired: list[Acquired]
    records: list[memoryview]


class Asked(NamedTuple):
    """A request for records: the holder, how many, and for how long."""

    holder: Hashable
    records_max: int
    exactly: bool
    """Whether to acquire at most `records_max`, even if the last batch has more."""
    seconds: float | None
    """Seconds after which the records are released; None: when the holder leaves."""


class PartitionDelivery(Watched):
    """Drives the cursor of one partition, from `begin` to `stop`. On the deciding thread."""

    def __init__(
        self,
        partition: "Partition",
        deadlines: "Deadlines",
        *,
        expired: Callable[[int], None],
        failed: Callable[[ApiError], None],
    ) -> None:
        """Create without a cursor. `expired` gets the number of records whose lease timed out;
        `failed` the error of a write: the stored state must then be read again, after `stop`."""
        super().__init__()
        self.partition = partition
        self.cursor = Cursor(0)
        self.error: ApiError | None = None
        """Why it was stopped; None: it was not."""
        self._clock = deadlines.clock
        self._deadline = deadlines.deadline(self._time_is_up)
        self._expired = expired
        self._failed = failed
        self._store: CursorStore | None = None
        """Store of the cursor's changes; None: not begun, or stopped."""
        self._spared = False
        """Whether the last records acquired must go alone, so that no others may follow them."""
        self._record_bytes = 256.0
        """Bytes of a record, estimated from the last read."""

    def begin(self, cursor: Cursor, store: "CursorStore") -> None:
        """Deliver the records of `cursor`, and store its changes in `store`."""
        self.cursor = cursor
        self._store = store
        cursor.forget_below(self.partition.log_start_offset)
        self._changed(_not_waited_for) if cursor.change_is_due else self._arm()
        self._wake()

    def stop(self, error: ApiError) -> None:
        """Stop the delivery because of `error`, and wake the watchers."""
        self.error = error
        self._store = None
        self._deadline.cancel()
        self._wake()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever records are released or committed, or the delivery stops."""
        if not self._watchers:
            self.partition.watch(self._wake)
        super().watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Remove a watcher; an unknown one is ignored."""
        super().unwatch(callback)
        if not self._watchers:
            self.partition.unwatch(self._wake)

    # Acquiring

    def bytes_wanted(self, bytes_max: int, records_max: int) -> int:
        """Return the bytes to read for about `records_max` records, by the last record size."""
        return min(bytes_max, max(int(2 * records_max * self._record_bytes), _READ_BYTES_MIN))

    def look(
        self, bytes_max: int, records_max: int, *, read_committed: bool, at_least_one: bool
    ) -> Look | None:
        """Return the data that may be acquired now, or None. ApiError: that of `Partition.read`."""
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
        """Acquire from the data that `look` named about as many records as requested.

        Unless `exactly`, the batch that reaches that number is acquired whole. Empty if other
        holders came first, or if the data has only markers and gaps.
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
        """Acquire neighbouring batches; the window is exceeded within one batch at most."""
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

    # Changes

    def changed(self, done: Done[ApiError | None]) -> None:
        """Store the cursor's changes, call `done` once they are durable, and wake the watchers."""
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
        """End overdue leases, and wake the watchers of records whose delay is over."""
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
    """Ignore the outcome: `failed` is called with an error."""
