"""A home's publishes to one queue of another broker: numbered, and undecided until `Stored`.

    WAITING --release, at most `UNDECIDED_MAX`--> SENT --Stored--> decided
       ^                                            |
       +---- session lost, with a producer id ------+

Without a producer id all are sent at once, and the end of a session decides them as unstored. With
one, the batches of SENT are sent again to the next leader, in order and unchanged: the log has the
last five of a producer, and so recognises them. A batch that was refused leaves a gap, by which the
leader refuses those behind it; then a new epoch of the producer begins at 0.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.ports.clock import Clock
from headrace.queues.port import ALL_STORED, UnstoredDone
from headrace.queues.queue_settings import Published
from headrace.queues.stores.log.log_writing import Crowded
from headrace.queues.stores.log.record_messages import record_bytes
from headrace.record.record_parts import NO_PRODUCER, ProducerBatch
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.messages import CALL_BYTES, Publish

if TYPE_CHECKING:
    from headrace.wire.amqp.content import Message

MESSAGES_MAX = 1000
"""Messages of one publish call at most."""
BATCH_BYTES_MAX = 512 * 1024
"""Bytes of messages of one publish call at most, unless the queue's log takes less in a batch."""
UNDECIDED_MAX = 5
"""Batches with a producer id that a leader has at once: a log remembers so many of a producer."""
WAITING_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of messages that wait for a leader at most."""
CROWDED_BYTES = 64 * 1024
"""Bytes of waiting messages above which publishers are paused."""
_SEQUENCE_MASK = 0x7FFF_FFFF


class _Waiting(NamedTuple):
    """A `when_stored` about the messages up to a number."""

    last: int
    unstored: set[int]
    done: UnstoredDone


class _Batch:
    """Messages of one publish call."""

    __slots__ = ("call", "messages", "over_length", "producer", "sealed", "size", "timestamp")

    def __init__(self, *, over_length: bool, timestamp: int) -> None:
        self.messages: list[Message] = []
        self.size = 0
        self.over_length = over_length
        self.timestamp = timestamp
        self.producer = NO_PRODUCER
        """Its place in the producer's sequence, from the first release on."""
        self.call: int | None = None
        """The number of its call in the session; None: it waits."""
        self.sealed = False
        """Whether no message is added: a leader may have it."""


class RemotePublishes:
    """The publishes to one queue, over all sessions. Implements `log_writing.Crowded`."""

    def __init__(
        self,
        clock: Clock,
        crowded: list[Crowded],
        producer_id: int = -1,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        """Begin without publishes; `producer_id` -1: the log does not recognise repeated ones.

        `crowded`: this is added to it when too much waits (`QueueLogs.crowded`).
        """
        self.last = 0
        """Number of the message published last, from 1."""
        self.waiting_bytes = 0
        """Bytes of messages that no leader was sent."""
        self.held_up: list[Callable[[], None]] = []
        self._crowded = crowded
        self._clock = clock
        self._producer_id = producer_id
        self._batch_bytes_max = batch_bytes_max
        self._epoch = 0
        self._sequence = 0
        """Sequence number of the batch that is released next, once the one before is sealed."""
        self._newest: _Batch | None = None
        """The batch released last."""
        self._gap = False
        """Whether a batch was refused: a new epoch begins once all that are sent are decided."""
        self._batches: dict[int, _Batch] = {}
        """All undecided batches, by the number of their first message."""
        self._sent = 0
        """How many of them are sent."""
        self._waiting: deque[_Waiting] = deque()

    @property
    def repeats(self) -> bool:
        """Whether undecided publishes are sent again to the next leader."""
        return self._producer_id >= 0

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that publishers are paused. Implements `log_writing.Crowded`."""
        return self.waiting_bytes > CROWDED_BYTES

    def add(self, session: HomeSession | None, queue: int, published: Published) -> None:
        """Send a message with the newest publish call, or with another one; or have it wait."""
        self.last += 1
        message = published.message
        size = record_bytes(message)
        batch = self._extensible(session, published, size)
        if batch is None:
            now = self._clock.wall_ms()
            batch = _Batch(over_length=published.over_length, timestamp=now)
            self._batches[self.last] = batch
        batch.messages.append(message)
        batch.size += size
        if batch.call is None:
            self.waiting_bytes += size
            self.release(session, queue)
            if self.is_crowded and self not in self._crowded:
                self._crowded.append(self)
        elif session is not None:
            session.calls.grow(CALL_BYTES + len(message.body) + len(message.header))

    def _extensible(
        self, session: HomeSession | None, published: Published, size: int
    ) -> _Batch | None:
        """Return the newest batch if a message may be added to it."""
        if not self._batches:
            return None
        batch = next(reversed(self._batches.values()))
        fits = len(batch.messages) < MESSAGES_MAX and batch.size + size <= self._batch_bytes_max
        if batch.sealed or not fits or batch.over_length != published.over_length:
            return None
        if batch.call is not None and (session is None or not session.calls.may_grow(batch.call)):
            return None
        return batch

    def close_call(self) -> None:
        """Leave the newest call as it is: another call of the queue follows it."""
        if self._batches:
            next(reversed(self._batches.values())).sealed = True

    def release(self, session: HomeSession | None, queue: int) -> None:
        """Send the batches that wait, as far as a leader may have them; `queue`: its number."""
        if session is None or self._gap:
            return
        for first, batch in self._batches.items():
            if self.repeats and self._sent >= UNDECIDED_MAX:
                break
            if batch.call is None:
                self._take_place(batch)
                call = Publish(
                    queue, first, batch.over_length, batch.messages, batch.timestamp, batch.producer
                )
                batch.call = session.call(call)
                self.waiting_bytes -= batch.size
                self._sent += 1
        self._go_on()

    def _go_on(self) -> None:
        """Resume paused publishers unless too much waits still."""
        if self.held_up and not self.is_crowded:
            held_up, self.held_up = self.held_up, []
            for go_on in held_up:
                go_on()

    def _take_place(self, batch: _Batch) -> None:
        """Give a batch its place in the producer's sequence, unless it has one already."""
        if not self.repeats or batch.producer is not NO_PRODUCER:
            return
        newest = self._newest
        if newest is not None:
            self._sequence = (self._sequence + len(newest.messages)) & _SEQUENCE_MASK
        batch.producer = ProducerBatch(self._producer_id, self._epoch, self._sequence)
        self._newest = batch

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the numbers of unstored messages, once all so far are decided."""
        self._waiting.append(_Waiting(self.last, set(), done))
        self._tell()

    def stored(
        self, session: HomeSession | None, queue: int, first: int, unstored: Sequence[int]
    ) -> None:
        """Note that the messages of a call are stored, but for some numbers."""
        for waiting in self._waiting:
            waiting.unstored.update(unstored)
        if self._batches.pop(first, None) is not None:
            self._sent -= 1
        self._gap = self.repeats and (self._gap or bool(unstored))
        if self._gap and not self._sent:
            self._gap = False
            self._epoch += 1
            self._sequence, self._newest = 0, None
        self.release(session, queue)
        self._tell()

    def lost(self, *, keep: bool) -> None:
        """Report all undecided messages as unstored, or keep them for the next leader."""
        batches = self._batches
        self._sent = 0
        self._gap = False
        if keep and self.repeats:
            for batch in batches.values():
                if batch.call is not None:
                    batch.call, batch.sealed = None, True
                    self.waiting_bytes += batch.size
            return
        self._batches, self.waiting_bytes = {}, 0
        for first, batch in batches.items():
            for waiting in self._waiting:
                waiting.unstored.update(range(first, first + len(batch.messages)))
        self._epoch += 1
        self._sequence, self._newest = 0, None
        self._go_on()
        self._tell()

    def _tell(self) -> None:
        first = next(iter(self._batches), self.last + 1)
        waiting = self._waiting
        while waiting and waiting[0].last < first:
            _, unstored, done = waiting.popleft()
            done(unstored or ALL_STORED)
