"""The store of a stream, whose log is created with its first message or is a Kafka topic."""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import HeadraceError
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.open_log import OpenLog
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.queue_settings import ConsumerSettings, StoredQueue, StreamStart
from headrace.queue_stores.stream.stream_log import StreamLog
from headrace.queue_stores.stream.stream_reader import StreamReader

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

_logger = logging.getLogger(__name__)


class DurableStream(DurableMessages):
    """The messages of a stream, and its readers, each with its own position."""

    def __init__(self, logs: QueueLogs, vhost: str, queue: StoredQueue, priority: int) -> None:
        super().__init__(logs, vhost, queue, priority)
        self._readers: dict[StreamReader, None] = {}
        self._at_next: dict[StreamReader, int] = {}
        """Readers that began behind the messages waiting for the log, with their number."""

    @classmethod
    def of_topic(
        cls,
        logs: QueueLogs,
        vhost: str,
        queue: StoredQueue,
        priority: int,
        partition: "Partition | HeadraceError",
    ) -> "DurableStream":
        """Return the store of a stream that reads an existing Kafka topic.

        It reads `partition`. If that is an error, every use of the stream fails with the error.
        """
        stream = cls(logs, vhost, queue, priority)
        stream._asked = True
        if isinstance(partition, HeadraceError):
            stream.failed(partition)
            _logger.error(
                "stream %r (vhost %r) cannot be read until the broker is restarted: its Kafka topic"
                " is unavailable: %s", queue.name, vhost, partition,
            )  # fmt: skip
        else:
            stream.open(partition, lambda _: None)
        return stream

    def _new_log(self, partition: "Partition") -> OpenLog:
        logs, own = self._logs, self.queue.settings.topic is None
        return StreamLog(
            partition,
            logs.files.disk,
            logs.clock,
            self,
            self._readers,
            own=own,
            windows=logs.windows,
        )

    @property
    def log(self) -> StreamLog | None:
        """The stream's log; None: not created yet, or closed."""
        return self._messages if isinstance(self._messages, StreamLog) else None

    @property
    def ready(self) -> int:
        """Number of readable offsets, markers included; of messages before the log exists."""
        log = self.log
        return len(self._waiting.messages) if log is None else log.count

    # Readers

    def reader(self, wishes: ConsumerSettings) -> StreamReader:
        """Return a new reader; it begins once the offset that `wishes` asks for is found."""
        reader = StreamReader(self, wishes.stream_filter)
        self._readers[reader] = None
        log, start = self.log, wishes.stream_offset
        if log is not None:
            log.find(start, reader.begin)
        elif start.start is StreamStart.NEXT:
            self._at_next[reader] = self._waiting.count
            reader.begin(len(self._waiting.messages))
        else:
            # The log does not exist: all messages will be of now, or later.
            reader.begin(start.value if start.start is StreamStart.OFFSET else 0)
        return reader

    def leave(self, reader: StreamReader) -> None:
        """Remove a reader of the stream."""
        self._readers.pop(reader, None)
        self._at_next.pop(reader, None)
        if self.log is not None:
            self.log.forget(reader)

    def _refuse_waiting(self, error: HeadraceError) -> None:
        super()._refuse_waiting(error)
        for reader in self._at_next:
            reader.begin(0)  # the refused messages have no offsets

    def _refused_alone(self, first: int, refused: Sequence[int]) -> None:
        for reader, number in self._at_next.items():
            reader.begin(number - first - bisect_left(refused, number))

    def end_turn(self, *, complete: bool) -> None:
        """Note that readers had their turn; `complete`: all of them."""
        if self.log is not None:
            self.log.end_turn(complete=complete)
