"""Published messages are written to a partition: those of a pass, or a turn, are one batch.

Who extends this says what follows on what was written, and what on what has become readable.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queues.message_store import StoreListener
from headrace.queues.queue_settings import Published
from headrace.queues.stores.log.message_window import WindowsBytes
from headrace.queues.stores.log.record_messages import batch_of_messages, record_bytes
from headrace.queues.stores.log.settled_files import SettledFiles
from headrace.queues.stores.memory.memory_use import MemoryUse
from headrace.record.batch_layout import HEADER_BYTES
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock, Timer
    from headrace.queues.stores.log.durable_messages import DurableMessages

BATCH_BYTES_MAX = 1024 * 1024
"""Messages of one turn that take more become several batches."""


AskForLog = Callable[["DurableMessages"], None]
"""Has the log of a store made and `have_log` called."""


class Appended(Protocol):
    """What has taken messages and not written them yet."""

    def write(self) -> None:
        """Write what was appended."""


class QueueLogs:
    """What the stores of all durable queues of a broker share."""

    def __init__(
        self,
        files: SettledFiles,
        clock: "Clock",
        ask_for_log: AskForLog,
        memory: MemoryUse | None = None,
    ) -> None:
        """`memory` counts what waits for a log, and a broker's queues in memory."""
        self.files = files
        self.clock = clock
        self.ask_for_log = ask_for_log
        self.windows = WindowsBytes()
        self.memory = memory or MemoryUse()
        self.appended: list[Appended] = []
        """Those that have something to write."""
        self.crowded: list[DurableMessages] = []
        """Those that too much waits for since who published was last held up."""

    def hold_up(self, go_on: Callable[[], None]) -> int:
        """Call `go_on` as each crowded log is there, or never will be; returns how many are."""
        crowded, self.crowded = self.crowded, []
        waiting = [messages for messages in crowded if messages.is_crowded]
        for messages in waiting:
            messages.held_up.append(go_on)
        return len(waiting)

    def write(self) -> None:
        """Write what the pass has brought."""
        appended, self.appended = self.appended, []
        for messages in appended:
            messages.write()


class LogWriting(ABC):
    """The appending side of a message store in a partition that this broker leads."""

    def __init__(self, partition: "Partition", clock: "Clock", listener: StoreListener) -> None:
        self.error: HeadraceError | None = None
        """Why it has failed."""
        self._partition = partition
        self._log = partition.log
        self._clock = clock
        self._listener = listener
        self._buffer: list[Message] = []
        """Appended, not written; so are `_expiries`."""
        self._expiries: list[float | None] = []
        self._buffer_bytes = 0
        self._batch_bytes_max = 0
        self.appended_to = 0
        """The position above what was appended last."""
        self._timer: Timer | None = None
        self._appends_refused: str | None = None
        """Why nothing more is taken though the store has not failed."""
        self._writing = False
        """Whether a batch is being appended of which `_written` has not been told yet."""

    @property
    def end(self) -> int:
        """The position above all that are kept."""
        return self._log.end_offset + len(self._buffer)

    def append(self, published: Published, expires_at: float | None) -> int:
        """Keep a message; returns a position that `confirmed` is about. HeadraceError.

        ApiError: MESSAGE_TOO_LARGE, NOT_LEADER_OR_FOLLOWER. Another: why the store failed.
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
        position = self._log.end_offset + len(buffer)
        self.appended_to = position
        return position - 1

    def _begin_batch(self, size: int) -> None:
        """Write what is appended, and see to it that what follows is written. HeadraceError."""
        if self._appends_refused is not None:
            raise HeadraceError(self._appends_refused)
        if self._partition.refusal is not None:
            raise ApiError(self._partition.refusal)
        config = self._log.config
        size_max = min(config.max_message_bytes, config.segment_bytes) - HEADER_BYTES
        if size > size_max:
            text = f"a message of {size} bytes, {size_max} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
        self._batch_bytes_max = min(BATCH_BYTES_MAX, size_max)
        self.write()
        if self.error is not None:
            raise self.error
        if self._timer is None:
            self._timer = self._clock.call_later(0, self.write)
            self._listener.appended()

    def write(self) -> None:
        """Write what was appended, as one batch: at the end of a pass over requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._buffer or self.error is not None:
            return
        messages, self._buffer = self._buffer, []
        content = batch_of_messages(messages, self._clock.wall_ms())
        expiries, self._expiries = self._expiries, []
        self._buffer_bytes = 0
        self._writing = True  # where nothing is flushed, the batch is committed at once
        try:
            appended = self._partition.append_internal(content)
        except ApiError as error:
            self._fail(error)
            return
        finally:
            self._writing = False
        end = appended.last_offset + 1
        self._partition.traffic.records_in += len(messages)
        self._partition.traffic.bytes_in += len(content)
        self._written(appended.base_offset, end, messages, expiries)
        self._partition.when_committed(appended.commit_offset, partial(self._committed, end))

    def _committed(self, end: int, error: ApiError | None) -> None:
        if error is not None:
            self._fail(error)
        elif self.error is None:
            self._advance()
            if self.error is None:
                self._listener.confirmed(end)

    def _fail(self, error: HeadraceError) -> HeadraceError:
        if self.error is None:
            self.error = error
            self._partition.unwatch(self._advance)
            self._listener.failed(error)
        return self.error

    def abandon(self) -> None:
        """Write and read nothing any more: the queue is closed. What holds records stays."""
        self._stop_writing()

    def _stop_writing(self) -> None:
        """Take and write nothing any more: the queue is deleted."""
        self.error = HeadraceError("the queue is deleted")
        self._partition.unwatch(self._advance)
        if self._timer is not None:
            self._timer.cancel()
        self._buffer, self._expiries = [], []

    # What follows

    @abstractmethod
    def _has_transient(self) -> None:
        """Note that one of the messages is not persistent."""

    @abstractmethod
    def _written(
        self,
        base: int,
        end: int,
        messages: Sequence[Message],
        expiries: Sequence[float | None],
    ) -> None:
        """Note that messages are written at `base` and up to `end`, which is not committed yet."""

    @abstractmethod
    def _advance(self) -> None:
        """Look at what has been committed since; nothing is as well."""
