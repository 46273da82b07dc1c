"""Batches of a queue's messages that wait until its partition has enough in-sync replicas.

    written, ISR too small --> held --ISR large enough--> appended, in order
                                 |
                                 +-- another broker leads, or the queue is purged: forgotten

A batch's positions are known once it is appended: Kafka producers may write meanwhile (acks=1). Its
publishes wait for its `end`, the position that its messages would have had.
"""

from collections import deque
from typing import NamedTuple

from headrace.log.producers.kept_states import SEQUENCE_MASK
from headrace.log.producers.producer_states import ProducerStates
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import BatchHeader, parse_header
from headrace.wire.amqp.content import Message

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of a queue's messages that wait for its log or for replicas; above, more are refused."""
CROWDED_BYTES = 64 * 1024
"""Bytes of a queue's waiting messages above which its publishers are paused.

A publisher that continued would slow down the creation of the log, and reach the bound above.
"""


class HeldBatch(NamedTuple):
    """Messages of one batch that is not appended."""

    messages: list[Message]
    expiries: list[float | None]
    """Monotonic seconds at which each message expires."""
    size: int
    end: int
    """The position after the last message, as `append` has returned it."""
    since: float
    """Monotonic seconds since which the batch is held."""
    content: bytes | None = None
    """The batch as its producer made it; None: it is made of the messages."""
    header: BatchHeader | None = None
    """The header of `content`."""

    @classmethod
    def of(
        cls,
        messages: list[Message],
        expiries: list[float | None],
        size: int,
        end: int,
        since: float,
        content: bytes | None,
    ) -> "HeldBatch":
        """Return a batch with the header of its content."""
        header = None if content is None else parse_header(content)
        return cls(messages, expiries, size, end, since, content, header)

    def expiries_at(self, now: float) -> list[float | None]:
        """Return the expiries if the batch is appended now: lifetimes do not pass while held."""
        since = self.since
        return [at + now - since if at is not None and at > since else at for at in self.expiries]


class HeldBatches:
    """The held batches of one partition, in order."""

    def __init__(self) -> None:
        self.count = 0
        """Number of their messages."""
        self.size = 0
        """Bytes of their messages."""
        self._batches: deque[HeldBatch] = deque()

    def add(self, batch: HeldBatch) -> None:
        """Add a batch behind the others."""
        self._batches.append(batch)
        self.count += len(batch.messages)
        self.size += batch.size

    @property
    def first(self) -> HeldBatch | None:
        """The batch that is appended next; None: none is held."""
        return self._batches[0] if self._batches else None

    def remove_first(self) -> None:
        """Remove the first batch."""
        batch = self._batches.popleft()
        self.count -= len(batch.messages)
        self.size -= batch.size

    @property
    def is_full(self) -> bool:
        """Whether so much is held that further messages are refused."""
        return self.size > WAITING_BYTES_MAX

    def has_batch(self, header: BatchHeader, log: ProducerStates, now_ms: int) -> bool:
        """Tell whether a producer's batch is held or in the log, as `ProducerStates.check` does.

        ApiError: as there, also if it does not follow the producer's last held batch.
        """
        held = [
            found
            for batch in self._batches
            if (found := batch.header) is not None
            and found.producer_id == header.producer_id
            and found.producer_epoch == header.producer_epoch
        ]
        first, size = header.base_sequence, header.last_offset_delta
        if any((each.base_sequence, each.last_offset_delta) == (first, size) for each in held):
            return True
        follows = -1
        if held:
            last = held[-1]
            follows = (last.base_sequence + last.last_offset_delta + 1) & SEQUENCE_MASK
            if first == follows:
                return False
        if log.check(header, now_ms) is not None:
            return True
        if held:
            text = f"sequence number {first}, expected {follows}"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return False
