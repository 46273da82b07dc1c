"""Writing of published messages to a partition: those of a pass are one batch.

Subclasses define the effects of written messages and of committed ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import Offset
from headrace.queue_stores.log.held_batches import HeldBatch, HeldBatches
from headrace.queue_stores.message_store import StoreListener
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import batch_of_messages, record_bytes
from headrace.record.batch import BatchHeader, check_produced
from headrace.record.batch_layout import HEADER_BYTES
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock, Timer

BATCH_BYTES_MAX = 1024 * 1024
"""Bytes of messages in a batch at most; a pass with more is written as several batches."""


class LogWriting(ABC):
    """The appending side of a message store in a partition that this broker leads."""

    def __init__(self, partition: "Partition", clock: "Clock", listener: StoreListener) -> None:
        self.error: HeadraceError | None = None
        """Why the store has failed; None: it works."""
        self._partition = partition
        self._log = partition.log
        self._clock = clock
        self._listener = listener
        self._buffer: list[Message] = []
        """Appended messages that are not written yet; `_expiries` has theirs."""
        self._expiries: list[float | None] = []
        self._buffer_bytes = 0
        self._batch_bytes_max = 0
        self._first = 0
        """The position of the buffer's first message, unless a Kafka producer writes before it."""
        self._held: HeldBatches | None = None
        """Batches that wait for in-sync replicas, or for `release`; None: there are none."""
        self._holds = 0
        """How often `hold` was called more often than `release`."""
        self._held_timer: Timer | None = None
        self.appended_to = 0
        """Position after the last appended message."""
        self._timer: Timer | None = None
        self._appends_refused: str | None = None
        """Why appends are refused although the store has not failed; None: they are accepted."""
        self._writing = False
        """Whether a batch is being appended that `_written` was not called for yet."""

    @property
    def end(self) -> int:
        """Position after the last message, written or not."""
        held = 0 if self._held is None else self._held.count
        return self._log.end_offset + held + len(self._buffer)

    def append(self, published: Published, expires_at: float | None) -> int:
        """Append a message; return its position, which `confirmed` reports once committed.

        Raises ApiError MESSAGE_TOO_LARGE or NOT_LEADER_OR_FOLLOWER, or the HeadraceError by which
        the store failed.
        """
        if self.error is not None:
            raise self.error
        buffer, size = self._buffer, record_bytes(published.message)
        if not buffer or self._buffer_bytes + size > self._batch_bytes_max:
            self._begin_batch(size)
            buffer = self._buffer
        if not published.persistent:
            self._has_transient()
        buffer.append(published.message)
        self._expiries.append(expires_at)
        self._buffer_bytes += size
        position = self._first + len(buffer)
        self.appended_to = position
        return position - 1

    @property
    def _size_max(self) -> int:
        """Bytes of messages that fit into one batch of the log, by its present settings."""
        config = self._log.config
        return min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of messages in one batch at most."""
        return min(BATCH_BYTES_MAX, self._size_max)

    def _begin_batch(self, size: int) -> None:
        """Write the appended batch, begin another one and schedule its write.

        Raises HeadraceError if nothing can be appended.
        """
        if self._appends_refused is not None:
            raise HeadraceError(self._appends_refused)
        if self._partition.refusal is not None:
            raise ApiError(self._partition.refusal)
        size_max = self._size_max
        if size > size_max:
            text = f"a message of {size} bytes, {size_max} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
        self._batch_bytes_max = min(BATCH_BYTES_MAX, size_max)
        self.write()
        if self.error is not None:
            raise self.error
        if self._held is not None and self._held.is_full:
            raise HeadraceError(
                f"the queue has fewer in-sync replicas than min.insync.replicas, and"
                f" {self._held.size} bytes of messages wait for them already: publish again later"
            )
        # Purged messages had positions: those of later ones are above, as `confirmed` goes by them.
        self._first = max(self.end, self.appended_to)
        if self._timer is None:
            self._timer = self._clock.call_later(0, self.write)
            self._listener.appended()

    def has_batch(self, batch: bytes) -> bool:
        """Tell whether the log has a producer's batch; write what was appended before it.

        ApiError: the batch is refused, as Kafka producers' are, or does not fit into one of this
        log.
        """
        size = len(batch) - HEADER_BYTES
        self.write()
        if self.error is not None:
            raise self.error
        self._begin_batch(size)
        if size > self._batch_bytes_max:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes")
        header: BatchHeader = check_produced(memoryview(batch))
        producers, now_ms = self._log.producers, self._clock.wall_ms()
        if self._held is not None:
            # Confirmed with all that is held: also one that the log has.
            return self._held.has_batch(header, producers, now_ms)
        first = producers.check(header, now_ms)
        if first is None:
            return False
        self.appended_to = max(self.appended_to, first.last_offset + 1)
        committed = partial(self._committed, self.appended_to)
        self._partition.when_committed(Offset(self.appended_to), committed)
        return True

    def append_all(self, messages: Sequence[Message], *, persistent: bool) -> None:
        """Append messages of the batch that the log does not have, by `has_batch`."""
        if not persistent:
            self._has_transient()
        self._buffer += messages
        self._expiries += [None] * len(messages)
        self.appended_to = self._first + len(self._buffer)

    def write(self, batch: bytes | None = None) -> None:
        """Write the appended messages as one batch, at the end of a pass over requests.

        `batch`: the batch of exactly these messages, as its producer made it.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._buffer or self.error is not None:
            return
        messages, self._buffer = self._buffer, []
        expiries, self._expiries = self._expiries, []
        size, self._buffer_bytes = self._buffer_bytes, 0
        if batch is not None:
            size = len(batch)
        if self._held is not None or not self._append(messages, expiries, batch):
            end, now = self.appended_to, self._clock.monotonic()
            self._hold(HeldBatch.of(messages, expiries, size, end, now, batch))

    def _append(
        self,
        messages: list[Message],
        expiries: list[float | None],
        batch: bytes | None,
        confirm_to: int | None = None,
    ) -> bool:
        """Append messages as a batch; return False if too few replicas are in sync for that.

        `confirm_to`: position up to which publishes are confirmed then; None: all so far.
        """
        content = batch or batch_of_messages(messages, self._clock.wall_ms())
        self._writing = True  # without a flush the batch is committed at once
        try:
            appended = self._partition.append_internal(content)
        except ApiError as error:
            if error.code is ErrorCode.NOT_ENOUGH_REPLICAS:
                return False
            self._fail(error)
            return True
        finally:
            self._writing = False
        self._partition.traffic.records_in += len(messages)
        self._partition.traffic.bytes_in += len(content)
        end = appended.last_offset + 1
        self._written(appended.base_offset, end, messages, expiries)
        if confirm_to is None:
            confirm_to = max(end, self.appended_to)
        committed = partial(self._committed, confirm_to)
        self._partition.when_committed(appended.commit_offset, committed)
        return True

    # Batches that wait for in-sync replicas, or for the decision about a deletion

    def hold(self) -> None:
        """Have later messages wait until `release`. See `LateStore.hold`."""
        self.write()
        self._holds += 1
        if self.error is None:
            self._begin_hold()

    def release(self) -> None:
        """Write what has waited since `hold`."""
        if self._holds:
            self._holds -= 1
            self._replicas_changed()

    def _begin_hold(self) -> HeldBatches:
        """Return the held batches, to which all that is written is added from now on."""
        if self._held is None:
            self._held = HeldBatches()
            self._partition.watch(self._replicas_changed)
        return self._held

    def _hold(self, batch: HeldBatch) -> None:
        """Have a batch wait until enough replicas are in sync."""
        held = self._begin_hold()
        held.add(batch)
        self._listener.note_held(held.size)

    def _replicas_changed(self) -> None:
        """Append the held batches in the loop's next turn, if they need not wait any more."""
        waits = self._holds > 0 or self._partition.role.too_few_replicas
        if self._held_timer is None and not waits:
            self._held_timer = self._clock.call_later(0, self._append_held)

    def _append_held(self) -> None:
        """Append the first held batch, and the next ones in later turns of the loop."""
        self._held_timer = None
        held = self._held
        if held is None or self._holds:
            return
        batch = held.first
        if batch is None:
            self._end_hold()
            return
        expiries = batch.expiries_at(self._clock.monotonic())
        if not self._append(batch.messages, expiries, batch.content, batch.end):
            return
        held.remove_first()
        if held is not self._held:
            return  # the store has stopped
        if held.first is None:
            self._end_hold()
        else:
            self._listener.note_held(held.size)
            self._replicas_changed()

    def _end_hold(self) -> None:
        """Forget the held batches, if any."""
        if self._held_timer is not None:
            self._held_timer.cancel()
            self._held_timer = None
        if self._held is not None:
            self._held = None
            self._partition.unwatch(self._replicas_changed)
            self._listener.note_held(0)

    def _purge_held(self) -> None:
        """Forget the held batches as purged; they are confirmed with what the log has."""
        if self._held is not None:
            self._end_hold()
            if self._holds:
                self._begin_hold()
            committed = partial(self._committed, self.appended_to)
            self._partition.when_committed(self._log.end_offset, committed)

    # Ends

    def _committed(self, end: int, error: ApiError | None) -> None:
        if error is not None:
            self._fail(error)
        elif self.error is None:
            self._advance()
            if self.error is None:
                self._listener.confirmed(end)

    def _fail(self, error: HeadraceError) -> HeadraceError:
        if self.error is None:
            self._stop_writing(error)
            self._listener.failed(error)
        return self.error or error

    def drop(self) -> None:
        """Stop writing and reading, and release memory and holds: the queue is deleted."""
        self._end(HeadraceError("the queue is deleted"))

    def resign(self) -> None:
        """Stop writing and reading, and release memory and holds: another broker leads.

        Nothing is confirmed any more; a `load` under way ends with the error.
        """
        self._end(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the queue"))

    def abandon(self) -> None:
        """Stop writing and reading: the queue is closed. Records stay held against deletion."""
        self._stop_writing(HeadraceError("the queue is closed"))

    def _stop_appending(self) -> None:
        """Write what was appended, then refuse appends: the broker stops."""
        self.write()
        self._appends_refused = "the broker is stopping: the message was not stored"
        self._end_hold()
        self._partition.unwatch(self._advance)

    def _stop_writing(self, error: HeadraceError) -> None:
        """Refuse further messages by an error, and drop those not written."""
        self.error = error
        self._partition.unwatch(self._advance)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buffer, self._expiries = [], []
        self._buffer_bytes = 0
        self._end_hold()

    # Hooks for subclasses

    @abstractmethod
    def _end(self, error: HeadraceError) -> None:
        """Stop writing and reading by an error, and release memory and holds."""

    @abstractmethod
    def _has_transient(self) -> None:
        """Note that an appended message is not persistent."""

    @abstractmethod
    def _written(
        self,
        base: int,
        end: int,
        messages: Sequence[Message],
        expiries: Sequence[float | None],
    ) -> None:
        """Note that messages are written from `base` up to `end`, which are not committed yet."""

    @abstractmethod
    def _advance(self) -> None:
        """Regard newly committed records of the log, if any."""
