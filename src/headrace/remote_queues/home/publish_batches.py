"""Batches of a home's publishes to one queue, and their places in its producer's sequences.

Each log of the queue has a sequence of its own: one for each priority. A batch has its place from
the time it is first sent, so that a log recognises it when it is sent again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import record_bytes
from headrace.record.record_parts import NO_PRODUCER, ProducerBatch

if TYPE_CHECKING:
    from headrace.wire.amqp.content import Message

MESSAGES_MAX = 1000
"""Messages of one batch at most."""
UNDECIDED_MAX = 5
"""Batches of a sequence that a leader has at once: a log remembers so many of a producer."""
TIMED_SPAN_MS_MAX = 10
"""Milliseconds between the publishes of a batch at most if they expire, or are in a stream: they
have one timestamp, from which the time to live counts."""
SPAN_MS_MAX = 1000
"""Milliseconds between other publishes of a batch at most. Batches that a leader has not taken are
filled meanwhile: it takes few at once."""
EPOCH_MAX = 0x7FFF
"""The last epoch of a producer id."""
_SEQUENCE_MASK = 0x7FFF_FFFF


class PublishBatch:
    """Messages of one publish call."""

    __slots__ = (
        "call", "first", "messages", "over_length", "producer", "sealed", "sequence", "size",
        "timestamp",
    )  # fmt: skip

    def __init__(
        self, first: int, sequence: "PublishSequence", *, over_length: bool, timestamp: int
    ) -> None:
        """Create an empty batch; `first` is the number of its first message."""
        self.first = first
        self.sequence = sequence
        self.messages: list[Message] = []
        self.size = 0
        self.over_length = over_length
        self.timestamp = timestamp
        self.producer = NO_PRODUCER
        """Its place in the sequence, from the first release on."""
        self.call: int | None = None
        """The number of its call in the session; None: it waits."""
        self.sealed = False
        """Whether no message is added: a leader may have it."""

    @property
    def numbers(self) -> range:
        """The numbers of its messages."""
        return range(self.first, self.first + len(self.messages))

    def add(self, message: "Message", size: int) -> None:
        """Add a message of `size` bytes in a record batch."""
        self.messages.append(message)
        self.size += size

    def has_room(
        self, published: Published, size: int, bytes_max: int, wall_ms: int, *, timed: bool
    ) -> bool:
        """Tell whether a message may be added at `wall_ms`, before the batch is sent.

        `timed`: the timestamps of all messages of the queue count.
        """
        if timed or published.expiration_ms is not None:
            span_ms_max = TIMED_SPAN_MS_MAX
        else:
            span_ms_max = SPAN_MS_MAX
        return (
            len(self.messages) < MESSAGES_MAX
            and self.size + size <= bytes_max
            and abs(wall_ms - self.timestamp) <= span_ms_max
            and self.over_length == published.over_length
        )

    def split(self, bytes_max: int) -> Iterable["PublishBatch"]:
        """Yield batches of `bytes_max` bytes, or of one message, in its place; it was not sent."""
        part: PublishBatch | None = None
        for number, message in zip(self.numbers, self.messages, strict=True):
            size = record_bytes(message)
            if part is None or part.size + size > bytes_max:
                if part is not None:
                    yield part
                part = PublishBatch(
                    number, self.sequence, over_length=self.over_length, timestamp=self.timestamp
                )
            part.add(message, size)
        if part is not None:
            yield part


class PublishSequence:
    """The batches of one log, in the producer's sequence, that wait for a leader or are sent."""

    def __init__(self, producer_id: int | None, renew: Callable[[], None]) -> None:
        """Begin without batches.

        `producer_id` -1: the log recognises none; None: it comes by `identify`, and nothing is
        sent before. `renew` is called when all epochs of the producer id are used.
        """
        self.repeats = producer_id is None or producer_id >= 0
        """Whether the log recognises batches that are sent again."""
        self._renew = renew
        self.waiting: deque[PublishBatch] = deque()
        self.sent = 0
        """How many undecided batches the leader has."""
        self._producer_id = -1 if producer_id is None else producer_id
        self._epoch = 0
        self._next = 0
        """Sequence number of the batch released next, once `_newest` is sealed."""
        self._newest: PublishBatch | None = None
        """The batch released last."""
        self._gap = False
        """Whether a batch was refused: a new epoch begins once all that are sent are decided."""

    def identify(self, producer_id: int) -> None:
        """Use a producer id from now on."""
        self._producer_id = producer_id
        self._epoch = 0

    def take(self) -> PublishBatch | None:
        """Return the next batch, with its place, that the leader may be sent; None: none now."""
        if not self.waiting or self._gap:
            return None
        if self.repeats and (self.sent >= UNDECIDED_MAX or self._producer_id < 0):
            return None
        batch = self.waiting.popleft()
        self.sent += 1
        if self.repeats and batch.producer is NO_PRODUCER:
            if self._newest is not None:
                self._next = (self._next + len(self._newest.messages)) & _SEQUENCE_MASK
            batch.producer = ProducerBatch(self._producer_id, self._epoch, self._next)
            self._newest = batch
        return batch

    def decided(self, *, refused: bool) -> None:
        """Note that a sent batch is stored, or that the leader has refused messages of it."""
        self.sent -= 1
        self._gap = self.repeats and (self._gap or refused)
        if self._gap and not self.sent:
            self._gap = False
            self.begin_epoch()

    def begin_epoch(self) -> None:
        """Begin at 0 in a new epoch of the producer: batches of this one may be in no log."""
        self._epoch += 1
        if self._epoch > EPOCH_MAX and self.repeats:
            self._producer_id = -1
            self._renew()
        self._next, self._newest = 0, None
        for batch in self.waiting:
            batch.producer = NO_PRODUCER

    def lost(self, batches: Iterable[PublishBatch]) -> None:
        """Have all undecided batches sent to the next leader, in order, as they are."""
        self.waiting = deque(batches)
        self.sent = 0
        self._gap = False
        for batch in self.waiting:
            if batch.call is not None:
                batch.call, batch.sealed = None, True

    def send_again(self, batches: Iterable[PublishBatch], *, since: PublishBatch | None) -> None:
        """Have sent batches that the leader did not append sent again, in order.

        `since`: the first of them if it has become shorter, so that the others have new places.
        """
        again = [batch for batch in batches if batch.messages]
        self.sent -= len(again)
        for batch in again:
            batch.call, batch.sealed = None, True
        self.waiting.extendleft(reversed(again))
        if since is None:
            return
        self._next, self._newest = since.producer.sequence, since
        if not since.messages:
            self.sent -= 1
            self._newest = None
        for batch in again:
            if batch is not since:
                batch.producer = NO_PRODUCER

    def split(self, bytes_max: int) -> None:
        """Split waiting batches that are larger than the log takes, and that no leader has."""
        waiting, self.waiting = self.waiting, deque()
        for batch in waiting:
            small = batch.size <= bytes_max or batch.producer is not NO_PRODUCER
            self.waiting.extend((batch,) if small else batch.split(bytes_max))
