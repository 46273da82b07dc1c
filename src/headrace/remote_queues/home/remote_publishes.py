"""A home's publishes to one queue of another broker: numbered, and undecided until `Stored`.

    WAITING --release, at most `UNDECIDED_MAX`--> SENT --Stored--> decided
       ^                                            |
       +---- session lost, with a producer id ------+
       +---- Room: the first messages, and batches behind them; the others are unstored

Without a producer id all are sent at once, and the end of a session decides them as unstored. With
one, the batches of SENT are sent again to the next leader, in order and unchanged: the log has the
last five of a producer, and so recognises them. A batch that was refused leaves a gap, by which the
leader refuses those behind it; then a new epoch of the producer begins at 0.

Nothing is released before the leader has told the bytes that its log takes in one batch.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.ports.clock import Clock
from headrace.queue_stores.log.queue_logs import Crowded
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import record_bytes
from headrace.queues.port import ALL_STORED, UnstoredDone
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.publish_batches import PublishBatch, PublishSequence
from headrace.remote_queues.messages import CALL_BYTES, Publish

BATCH_BYTES_MAX = 512 * 1024
"""Bytes of messages of one publish call at most, unless the queue's log takes less in a batch."""
WAITING_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of messages that wait for a leader at most."""
CROWDED_BYTES = 64 * 1024
"""Bytes of waiting messages above which publishers are paused."""


def _no_renewal() -> None:
    """Do nothing: there is no other producer id."""


class _Awaited(NamedTuple):
    """A `when_stored` about the messages up to a number."""

    last: int
    unstored: set[int]
    done: UnstoredDone


class RemotePublishes:
    """The publishes to one queue, over all sessions. Implements `log_writing.Crowded`."""

    def __init__(
        self,
        link: LeaderLink,
        clock: Clock,
        crowded: list[Crowded],
        producer_id: int | None = -1,
        priority_max: int | None = None,
        renew: Callable[[], None] = _no_renewal,
    ) -> None:
        """Begin without publishes; `producer_id`, `renew`: those of `PublishSequence`.

        `crowded`: this is added to it when too much waits (`QueueLogs.crowded`). `priority_max`:
        the queue's highest priority, each of which has a log; None: one log has all messages.
        """
        self.last = 0
        """Number of the message published last, from 1."""
        self.waiting_bytes = 0
        """Bytes of messages that no leader was sent."""
        self.held_up: list[Callable[[], None]] = []
        self._link = link
        self._crowded = crowded
        self._clock = clock
        self.timed = False
        """Whether the queue's messages expire, or are found by their time."""
        one_log = priority_max is None or producer_id == -1
        priorities = range(1 if one_log else (priority_max or 0) + 1)
        self._sequences = [PublishSequence(producer_id, renew) for _ in priorities]
        """By priority."""
        self._batches: dict[int, PublishBatch] = {}
        """All undecided batches, by the number of their first message."""
        self._newest: PublishBatch | None = None
        """The last of them."""
        self._awaited: deque[_Awaited] = deque()
        self._batch_bytes_max = BATCH_BYTES_MAX
        self._opened = False
        """Whether the leader has told the bytes of a batch."""
        self.was_opened = False
        """Whether it had, before the session was lost."""
        self._round = 0
        """How often the leader has answered `Room` in the session."""

    @property
    def unconfirmed(self) -> int:
        """Number of batches that are not decided."""
        return len(self._batches)

    @property
    def repeats(self) -> bool:
        """Whether undecided publishes are sent again to the next leader."""
        return self._sequences[0].repeats

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that publishers are paused. Implements `log_writing.Crowded`."""
        return self.waiting_bytes > CROWDED_BYTES

    def identify(self, producer_id: int) -> None:
        """Use a producer id, which nothing else has used, from now on."""
        for sequence in self._sequences:
            sequence.identify(producer_id)
        self._release(self._sequences)

    # Publishing

    def add(self, published: Published) -> None:
        """Send a message with the newest publish call, or with another one; or have it wait."""
        self.last += 1
        message, sequences = published.message, self._sequences
        size = record_bytes(message)
        sequence = sequences[0]
        if len(sequences) > 1:
            sequence = sequences[min(published.priority, len(sequences) - 1)]
        batch = self._newest
        if batch is None or not self._is_extensible(batch, published, size, sequence):
            batch = PublishBatch(
                self.last,
                sequence,
                over_length=published.over_length,
                timestamp=self._clock.wall_ms(),
            )
            self._batches[self.last] = self._newest = batch
            sequence.waiting.append(batch)
            self._link.use()
        batch.messages.append(message)
        batch.size += size
        session = self._link.session
        if batch.call is None:
            self.waiting_bytes += size
            self._release((sequence,))
            if self.is_crowded and self not in self._crowded:
                self._crowded.append(self)
        elif session is not None:
            size = CALL_BYTES + len(message.body) + len(message.header)
            session.calls.grow(batch.call, size)

    def _is_extensible(
        self, batch: PublishBatch, published: Published, size: int, sequence: PublishSequence
    ) -> bool:
        """Tell whether a message may be added to the newest batch."""
        if batch.sealed or batch.sequence is not sequence:
            return False
        session = self._link.session
        if batch.call is not None and (session is None or not session.calls.may_grow(batch.call)):
            return False
        now_ms, bytes_max = self._clock.wall_ms(), self._batch_bytes_max
        return batch.has_room(published, size, bytes_max, now_ms, timed=self.timed)

    def _note_newest(self) -> None:
        self._newest = next(reversed(self._batches.values()), None)

    def close_call(self) -> None:
        """Leave the newest call as it is: another call of the queue follows it."""
        if self._newest is not None:
            self._newest.sealed = True

    def _release(self, sequences: Iterable[PublishSequence]) -> None:
        """Send the batches that wait, as far as a leader may have them."""
        link, session = self._link, self._link.session
        if session is None or not self._opened:
            return
        for sequence in sequences:
            while (batch := sequence.take()) is not None:
                call = Publish(
                    link.queue, batch.first, batch.over_length, batch.messages, batch.timestamp,
                    batch.producer, self._round,
                )  # fmt: skip
                batch.call = session.call(call)
                self.waiting_bytes -= batch.size
        self._go_on()

    def _go_on(self) -> None:
        """Resume paused publishers unless too much waits still."""
        if self.held_up and not self.is_crowded:
            held_up, self.held_up = self.held_up, []
            for go_on in held_up:
                go_on()

    # Events of the leader

    def opened(self, batch_bytes_max: int) -> None:
        """Send what waits, in batches with as many bytes of messages; 0: the log does not say."""
        self._opened = self.was_opened = True
        bytes_max = BATCH_BYTES_MAX
        if batch_bytes_max:
            bytes_max = min(bytes_max, batch_bytes_max)
        if bytes_max < self._batch_bytes_max:
            for sequence in self._sequences:
                sequence.split(bytes_max)
            waiting = (batch for sequence in self._sequences for batch in sequence.waiting)
            sent = (batch for batch in self._batches.values() if batch.call is not None)
            self._batches = dict(sorted((batch.first, batch) for batch in (*sent, *waiting)))
            self._note_newest()
        self._batch_bytes_max = bytes_max
        self._release(self._sequences)

    def stored(self, first: int, unstored: Sequence[int]) -> None:
        """Note that the messages of a call are stored, but for some numbers."""
        self._note_unstored(unstored)
        batch = self._batches.pop(first, None)
        self._note_newest()
        if batch is not None:
            batch.sequence.decided(refused=bool(unstored))
        self._release(self._sequences)
        self._tell()

    def room(self, first: int, count: int) -> None:
        """Send the first messages of a batch again; the queue has no room for the others.

        The leader ignores the batches that were sent behind it: they are sent again, too.
        """
        batch = self._batches.get(first)
        if batch is None or batch.call is None:
            return
        self._round += 1
        sent_at = batch.call
        again = [
            each
            for each in self._batches.values()
            if each.call is not None and each.call >= sent_at
        ]
        self._note_unstored(batch.numbers[count:])
        # The call has the list, and may not be answered yet.
        batch.messages = batch.messages[:count]
        batch.size = sum(map(record_bytes, batch.messages))
        if not count:
            del self._batches[first]
            self._note_newest()
        for sequence in self._sequences:
            since = batch if sequence is batch.sequence else None
            sequence.send_again([each for each in again if each.sequence is sequence], since=since)
        self.waiting_bytes += sum(each.size for each in again)
        self._release(self._sequences)
        self._tell()

    # Sessions

    def begin(self) -> None:
        """Wait for a new leader to tell the bytes of a batch."""
        self._opened = self.was_opened = False
        self._round = 0

    def lost(self, *, keep: bool) -> None:
        """Report all undecided messages as unstored, or keep them for the next leader."""
        self._opened = False
        batches = self._batches
        if not keep or not self.repeats:
            self._batches = {}
            for batch in batches.values():
                self._note_unstored(batch.numbers)
        self._note_newest()
        self.waiting_bytes = sum(batch.size for batch in self._batches.values())
        for sequence in self._sequences:
            sequence.lost(each for each in self._batches.values() if each.sequence is sequence)
            if not self._batches:
                sequence.begin_epoch()
        self._go_on()
        self._tell()

    def deleted(self) -> None:
        """Count all undecided messages as stored: they are deleted with the queue.

        RabbitMQ confirms them, too.
        """
        self._batches = {}
        self._newest = None
        self.waiting_bytes = 0
        for sequence in self._sequences:
            sequence.lost(())
        self._go_on()
        self._tell()

    # Confirms

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the numbers of unstored messages, once all so far are decided."""
        self._awaited.append(_Awaited(self.last, set(), done))
        self._tell()

    def _note_unstored(self, numbers: Sequence[int]) -> None:
        for awaited in self._awaited:
            awaited.unstored.update(each for each in numbers if each <= awaited.last)

    def _tell(self) -> None:
        first = next(iter(self._batches), self.last + 1)
        awaited = self._awaited
        while awaited and awaited[0].last < first:
            _, unstored, done = awaited.popleft()
            done(unstored or ALL_STORED)
