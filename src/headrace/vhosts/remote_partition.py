"""`RemotePartition`: a Kafka topic's partition on another broker, for messages of exchanges.

    append ──► WAITS ──► SENT, one batch at a time ──► stored

A batch has a producer id and a sequence of its partition, so that one that is sent again is stored
once. After an error that leaves open whether it is stored, the next batch has another producer id.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.record.record_parts import Parts, ProducerBatch, build_of_parts

if TYPE_CHECKING:
    from headrace.config.log_config import LogConfig

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of one partition's messages that wait; above, more are refused."""
_SEQUENCE_MASK = 0x7FFFFFFF
NewProducerId = Callable[[Done[int | ApiError]], None]


class Produced(NamedTuple):
    """A batch for a partition."""

    partition: TopicPartition
    batch: bytes


class Cluster(Protocol):
    """The leaders of partitions. Implemented by `RemotePartitions`."""

    def config(self, topic: str) -> "LogConfig":
        """Return a topic's present settings. ApiError: it does not exist."""

    def new_producer_id(self, done: Done[int | ApiError]) -> None:
        """Call `done` with a producer id that nothing else uses."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""

    def ask(self, produced: Produced, done: Done[ApiError | None]) -> None:
        """Have a partition's leader store a batch, once; `done` takes None once it is committed."""


class _Waiting(NamedTuple):
    records: Sequence[Parts]
    size: int
    done: Done[ApiError | None]


class RemotePartition:
    """A partition that this broker does not lead now. On the deciding thread."""

    def __init__(self, topic_partition: TopicPartition, cluster: Cluster) -> None:
        """Create without batches."""
        self.topic_partition = topic_partition
        self._cluster = cluster
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._busy = False
        self._producer_id: int | None = None
        self._sequence = 0

    @property
    def config(self) -> "LogConfig":
        """The topic's present settings. ApiError: it does not exist."""
        return self._cluster.config(self.topic_partition.topic)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that more messages are refused."""
        return self._bytes > WAITING_BYTES_MAX

    def append(self, records: Sequence[Parts], size: int, done: Done[ApiError | None]) -> None:
        """Append records as one batch; `done` takes None once it is committed, or the error."""
        self._waiting.append(_Waiting(records, size, done))
        self._bytes += size
        self._go_on()

    def _go_on(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        if self._producer_id is None:
            self._cluster.new_producer_id(self._identified)
        else:
            self._send(self._producer_id)

    def _identified(self, producer_id: int | ApiError) -> None:
        if isinstance(producer_id, ApiError):
            self._answered(self._waiting.popleft(), producer_id)
            return
        self._producer_id, self._sequence = producer_id, 0
        self._send(producer_id)

    def _send(self, producer_id: int) -> None:
        waiting = self._waiting.popleft()
        producer = ProducerBatch(producer_id, 0, self._sequence)
        batch = build_of_parts(waiting.records, self._cluster.now_ms(), producer=producer)
        self._cluster.ask(Produced(self.topic_partition, batch), partial(self._answered, waiting))

    def _answered(self, waiting: _Waiting, error: ApiError | None) -> None:
        self._busy = False
        self._bytes -= waiting.size
        if error is None:
            self._sequence = (self._sequence + len(waiting.records)) & _SEQUENCE_MASK
        else:
            self._producer_id = None
        waiting.done(error)
        self._go_on()
