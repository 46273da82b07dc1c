"""Messages of a durable queue: records of a partition, and a file of settled positions.

A position is an offset. Messages appended in one pass are one batch, written by `write` or at the
end of the event loop's turn. A message is delivered only after it is committed and after its
possible delivery is recorded durably: after an unclean stop, `redelivered` is true for all
delivered messages and for up to HANDED_OUT_AHEAD more. Settlements are durable
SETTLED_WRITE_SECONDS and a flush later. Kafka producers may write to the partition, too: their
records are messages once committed.

`load` comes first, after this broker leads the partition; `close` writes the exact state for the
next start. On the deciding thread; reads from disk and decompression run on others.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, HeadraceError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.copies_port import Copies
from headrace.queue_stores.log.log_loading import LogLoading
from headrace.queue_stores.log.log_writing import LogWriting
from headrace.queue_stores.log.message_reader import MessageReader, Read
from headrace.queue_stores.log.message_window import (
    CACHE_BYTES_MAX,
    MessageWindow,
    WindowsBytes,
)
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.log.settlement import HANDED_OUT_AHEAD, Settlement
from headrace.queue_stores.log.settlement_counts import Settled
from headrace.queue_stores.message_store import Kept, StoreListener
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock


class _Batch(NamedTuple):
    """A batch that the queue has written and that is not committed: offsets and bytes."""

    base: int
    end: int
    size: int


class _Written(NamedTuple):
    """A range of positions that the queue wrote, with messages that expire; perhaps undelivered."""

    base: int
    end: int
    at: float
    """Monotonic seconds at which they were written."""


class LogMessages(LogWriting):
    """The message store of a durable queue: records of a partition that this broker leads."""

    def __init__(
        self,
        partition: "Partition",
        files: SettledFiles,
        clock: "Clock",
        listener: StoreListener,
        *,
        ttl_ms_at: Callable[[int], int | None] | None = None,
        drops_transient: bool = False,
        keeps_settled: bool = False,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        handed_out_ahead: int = HANDED_OUT_AHEAD,
        windows: WindowsBytes | None = None,
        copies: Copies | None = None,
    ) -> None:
        """Make the store; use it after `load`. `ttl_ms_at`: `StoredQueue.ttl_ms_at`.

        `drops_transient`: `load` settles messages that are not persistent, if the queue has one
        replica. `keeps_settled`: settled messages are deleted by the topic's retention only.
        `copies`: the copies of settled positions on other brokers; None: the broker has no cluster.
        """
        super().__init__(partition, clock, listener)
        self._new_window = partial(MessageWindow, bytes_max=cache_bytes_max, windows=windows)
        self._settlement = Settlement(partition, files, self._settled_durable, handed_out_ahead)
        self._epoch = partition.leader_epoch
        self._copies = copies
        self._keeps_settled = keeps_settled
        self._reader = MessageReader(partition, files.disk, clock, ttl_ms_at, self._settlement)
        self._loading = LogLoading(
            partition,
            self._settlement,
            self._reader,
            files.disk,
            clock,
            drops_transient=drops_transient,
            copies=copies,
        )
        self._reading = False
        self._window = self._new_window(0)
        self._again: dict[int, tuple[Message, float | None]] = {}
        """Requeued messages and their expiries, by position, as read back from the log together."""
        self._kept = Kept()
        self._closed: Callable[[], None] | None = None
        self._pending: deque[_Batch] = deque()
        self._put_off: deque[_Written] = deque()

    # Beginning and end

    def load(self, done: Done[HeadraceError | None], settled: bytes | None = None) -> None:
        """Read the settled positions and count the other messages; then the store may be used.

        `settled` is the content of the file of settled positions; None: read it.
        """

        def loaded(kept: Kept | HeadraceError) -> None:
            if isinstance(kept, HeadraceError):
                done(self._fail(kept))
                return
            settlement = self._settlement
            self._kept = kept
            self._window = self._new_window(settlement.mark)
            self._partition.watch(self._advance)
            self._log.context.holds.add(self._log.topic_partition, settlement)
            self._let_segments_go(self._log.high_watermark)
            done(None)
            self._advance()

        self._loading.load(loaded, settled)

    def kept(self) -> Kept:
        """Return the store's contents as they were when the log was loaded."""
        return self._kept

    def close(self, done: Callable[[], None]) -> None:
        """Write exactly what was delivered and settled, then call `done`: the last call."""
        self._stop_appending()
        settlement = self._settlement
        nothing_new = settlement.is_exact or not self._log.end_offset
        if self.error is not None or self._log.closed or nothing_new:
            done()
            return
        self._closed = done
        settlement.closed = True
        settlement.change(soon=True)

    def _end(self, error: HeadraceError) -> None:
        self._stop_writing(error)
        self._loading.stop(error)
        self._settlement.abandon()
        if self._copies is not None:
            self._copies.end(self._partition)
        self._log.context.holds.remove(self._log.topic_partition, self._settlement)
        self._window.release()
        self._again.clear()
        self._pending.clear()
        self._put_off.clear()

    def abandon(self) -> None:
        """Stop writing and reading, the file of settled positions included."""
        super().abandon()
        self._loading.stop(HeadraceError("the queue is closed"))
        self._settlement.abandon()
        self._window.release()

    # Appending

    def _has_transient(self) -> None:
        self._settlement.note_transient()

    def _written(
        self,
        base: int,
        end: int,
        messages: Sequence[Message],
        expiries: Sequence[float | None],
    ) -> None:
        self._pending.append(_Batch(base, end, sum(len(message.body) for message in messages)))
        if self._window.following == base and self._window.has_room:
            self._window.extend(range(base, end), messages, expiries, end)
        if any(expires_at is not None for expires_at in expiries):
            self._settlement.expiring = True
            self._put_off.append(_Written(base, end, self._clock.monotonic()))
        self._settlement.tell_ahead()

    # Committed messages

    @property
    def counted_to(self) -> int:
        """Position below which all committed messages are counted."""
        return self._settlement.waiting.counted_to

    def _advance(self) -> None:
        """Count newly committed messages; a broken invariant closes only this queue."""
        try:
            self._count_committed()
        except InvariantError as error:
            self._listener.broke(error)

    def _count_committed(self) -> None:
        """Count own batches from memory, and others by reading them."""
        if self._partition.refusal is not None:
            self._fail(ApiError(self._partition.refusal))
        if self._writing or self.error is not None:
            return
        settlement, pending = self._settlement, self._pending
        if self._partition.leader_epoch != self._epoch:  # this broker leads on
            self._epoch = self._partition.leader_epoch
            settlement.begin_epoch()
        before = settlement.waiting.counted_to
        end = self._partition.readable_end(True)
        while self.error is None and (at := settlement.waiting.counted_to) < end:
            if pending and pending[0].end <= at:
                pending.popleft()  # purged
            elif pending and pending[0].base <= at:
                batch = pending[0]
                if batch.end > end:
                    break
                pending.popleft()
                settlement.count(batch.end, batch.end - batch.base, batch.size)
            elif self._reading:
                break
            else:
                below = min(end, pending[0].base) if pending else end
                self._reading = True
                self._reader.read(at, below, self._have_arrived)
                if not self._reading:  # a turn of the loop for others: there may be very many
                    self._clock.call_later(0, self._advance)
                    break
        if settlement.waiting.counted_to > before:
            self._put_off_expiries()
            self._listener.readable()

    def _have_arrived(self, read: Read | HeadraceError, later: bool) -> None:
        """Count messages that Kafka producers wrote, now read from the log; notify the queue."""
        self._reading = False
        if isinstance(read, HeadraceError):
            self._fail(read)
            return
        if self.error is not None:
            return
        if read.following > self._settlement.waiting.counted_to:
            try:
                count, size = self._settlement.count_found(read.found, read.following)
            except InvariantError as error:
                self._listener.broke(error)
                return
            if count:
                self._listener.arrived(count, size)
        if later:
            self._advance()
            self._listener.readable()

    # Reading

    def _put_off_expiries(self) -> None:
        """Begin lifetimes when messages become deliverable, not while they are written."""
        put_off, settlement = self._put_off, self._settlement
        readable_to = min(settlement.waiting.counted_to, settlement.told_durable)
        now = self._clock.monotonic()
        while put_off and put_off[0].end <= readable_to:
            written = put_off.popleft()
            self._window.put_off(written.base, written.end, now - written.at, written.at)

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return the lowest unsettled positions and their messages, from `position` on."""
        settlement, window = self._settlement, self._window
        if self.error is not None or not settlement.may_deliver:
            return (), ()
        if position < settlement.mark:
            found = self._again.get(position)
            if found is None:
                self._read_again(position)
                found = self._again.get(position)
            return ((), ()) if found is None else ((position,), (found[0],))
        bound = min(settlement.waiting.counted_to, settlement.told_durable)
        if settlement.told_durable <= position:
            settlement.tell_ahead()
        if window.is_empty:
            self._read_ahead(bound)
        return window.slice(position, count, bound)

    def _read_ahead(self, bound: int) -> None:
        """Read the next messages to deliver into the window, if it is empty."""
        window = self._window
        while self.error is None and not self._reading:
            if not window.is_empty or window.following >= bound:
                break
            self._reading = True
            counted_to = self._settlement.waiting.counted_to
            self._reader.read(window.following, counted_to, self._have_more)

    def _have_more(self, read: Read | HeadraceError, later: bool) -> None:
        """Add read messages to those that are delivered next."""
        self._reading = False
        if isinstance(read, HeadraceError):
            self._fail(read)
        if self.error is not None or isinstance(read, HeadraceError):
            return
        if read.following > self._window.following:
            found = read.found
            expiries = self._reader.monotonic(found.expiries_ms)
            self._window.extend(found.positions, found.messages, expiries, read.following)
        if later:
            self._advance()
            self._listener.readable()

    def _read_again(self, position: int) -> None:
        """Read a requeued message and those after it."""

        def have_read(read: Read | HeadraceError, later: bool) -> None:
            self._reading = False
            if isinstance(read, HeadraceError):
                self._fail(read)
            if self.error is not None or isinstance(read, HeadraceError):
                return
            found = read.found
            expiries = self._reader.monotonic(found.expiries_ms)
            messages = zip(found.messages, expiries, strict=True)
            self._again = dict(zip(found.positions, messages, strict=True))
            if later:
                self._advance()
                self._listener.readable()

        if not self._reading:
            self._reading = True
            self._reader.read(position, self._settlement.waiting.counted_to, have_read)

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message that was read, in monotonic seconds; None: none."""
        again = self._again.get(position)
        return self._window.expires_at(position) if again is None else again[1]

    # Settling

    def note_handed_out(self, below: int) -> None:
        """Note that messages below a position may have been delivered."""
        self._settlement.hand_out(below, *self._window.pass_to(below))

    def note_returned(self, position: int, count: int) -> None:
        """Note that a message has been requeued `count` times so far."""
        self._settlement.note_returned(position, count)

    def settle(self, positions: Sequence[int]) -> None:
        """Settle messages; a `range` beyond the mark stands for all ready ones (purge)."""
        settlement = self._settlement
        if isinstance(positions, range) and positions.stop > settlement.mark:
            self.write()
            self._purge_held()
            end = self._log.end_offset
            self._window.pass_to(end)
            settlement.settle_waiting(end)
            return
        settlement.settle(positions)
        if self._again:
            for position in positions:
                self._again.pop(position, None)

    def settled(self) -> Settled:
        """Return two positions: all below the first is settled, all below the second durably so."""
        return Settled(self._settlement.start, self._settlement.start_durable)

    @property
    def settlement(self) -> Settlement:
        """The settled positions, with the frames that record them."""
        return self._settlement

    def write_settled(self) -> None:
        """Have the settled positions written at once."""
        self._settlement.change(soon=True)

    def _settled_durable(self) -> None:
        """Delete segments that are wholly settled, and deliver, once a frame is durable."""
        if self._log.context.failure is not None:
            self._fail(self._log.context.failure)
            return
        if self.error is None and self._closed is None and not self._log.closed:
            settlement = self._settlement
            self._put_off_expiries()
            self._let_segments_go(settlement.unsettled_from(settlement.mark))
            self._listener.readable()
        if self._closed is not None and self._settlement.is_written:
            closed, self._closed = self._closed, None
            closed()

    def _let_segments_go(self, below: int) -> None:
        """Delete segments whose messages are all settled, also behind others, below `below`."""
        if self._keeps_settled:
            return
        log, start_durable = self._log, self._settlement.start_durable
        bases = [segment.base_offset for segment in log.segments]
        start = bases[max(bisect_right(bases, start_durable) - 1, 0)]
        if start > log.start_offset:
            # Refused while a reader holds the records: a later write deletes them.
            with suppress(ApiError):
                self._partition.delete_records(start)
        log.context.events.let_go(log, Offset(below))
