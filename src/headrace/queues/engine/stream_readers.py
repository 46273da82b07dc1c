"""The consumers of a stream on one broker, each with its own position and its own turn.

The stream is the one that this broker leads, or a replica of one that another broker leads.
"""

from typing import TYPE_CHECKING, Protocol

from headrace.queue_stores.queue_settings import StreamStart
from headrace.queues.engine.consumers import Consumers
from headrace.queues.engine.deliveries import Served, give
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.refusals import precondition_failed, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.queue_stores.queue_settings import ConsumerSettings
    from headrace.queue_stores.stream.stream_reader import ReadableLog, StreamReader
    from headrace.queues.port import Consumer
    from headrace.queues.queue_traffic import QueueTraffic

BATCH_MESSAGES_MAX = 1000
"""Messages that one `deliver` delivers at most."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of bodies after which one `deliver` stops."""
SHARE_MESSAGES_MAX = 100
"""Messages delivered to a reader before other readers have their turn."""


class ReaderSource(Protocol):
    """The stream that consumers read: `DurableStream`, or a replica."""

    @property
    def log(self) -> "ReadableLog | None":
        """The stream's log; None: not created yet, or closed."""

    def reader(self, wishes: "ConsumerSettings") -> "StreamReader":
        """Return a new reader; it begins once the offset that `wishes` asks for is found."""

    def leave(self, reader: "StreamReader") -> None:
        """Remove a reader."""

    def end_turn(self, *, complete: bool) -> None:
        """Note that readers had their turn; `complete`: all of them."""


def check_reader(consumer: "Consumer", title: str) -> None:
    """Raise Refused for a consumer without a prefetch limit of its own, or with no-ack."""
    if not consumer.prefetch:
        raise precondition_failed(f"consumer prefetch count is not set for stream {title}")
    if consumer.no_ack:
        raise unsupported(f"automatic acknowledgement not supported by stream {title}")
    if consumer.channel.prefetch:
        raise unsupported(f"{title} does not support global qos")


class StreamReaders:
    """The consumers of a stream, their positions and their deliveries."""

    def __init__(self, title: str, source: ReaderSource, traffic: "QueueTraffic") -> None:
        """Begin without consumers; deliveries are counted in `traffic`."""
        self.consumers = Consumers(single_active=False)
        self.unacked = 0
        """Number of deliveries that are not settled."""
        self.more = False
        """Whether the last `deliver` has left messages for consumers with credit."""
        self._title = title
        self._source = source
        self._traffic = traffic
        self._places: dict[Consumer, tuple[MessageLevel, StreamReader]] = {}

    def add(self, consumer: "Consumer") -> None:
        """Add a consumer, which `check_reader` accepts, at the offset it asks for."""
        # As in RabbitMQ the flag is accepted, and has no effect on a stream.
        consumer.exclusive = False
        self.consumers.add(consumer, self._title)
        reader = self._source.reader(consumer.wishes)
        self._places[consumer] = MessageLevel(0, reader), reader

    def remove(self, consumer: "Consumer") -> bool:
        """Remove a consumer; return False if it is not registered."""
        place = self._places.pop(consumer, None)
        if place is not None:
            self.consumers.remove(consumer)
            self._source.leave(place[1])
        return place is not None

    def enter(self, consumer: "Consumer") -> None:
        """Let a parked consumer that has credit again take turns."""
        if consumer in self._places:
            self.consumers.enter(consumer)

    def when_begun(self, consumer: "Consumer", begun: "Callable[[int], None]") -> None:
        """Call `begun` with the offset at which a consumer begins, now or once it is found.

        Another broker that leads the stream next has all messages below it.
        """
        _, reader = self._places[consumer]
        reader.when_begun(lambda at: begun(self._committed(consumer, at)))

    def _committed(self, consumer: "Consumer", at: int) -> int:
        """Return the offset at which a consumer goes on with the next leader.

        What is above the high watermark may be lost with this one: of a start at the log's end,
        the messages that get these offsets then would be skipped.
        """
        log, start = self._source.log, consumer.wishes.stream_offset.start
        if log is None or start in {StreamStart.FIRST, StreamStart.OFFSET}:
            return at
        return min(at, log.readable_end)

    def resign(self) -> "list[Consumer]":
        """Remove all consumers; return them, to begin on another broker where they are now."""
        consumers = list(self.consumers)
        for consumer, (_, reader) in self._places.items():
            if reader.has_begun:
                consumer.read_on_from(self._committed(consumer, reader.at))
            self._source.leave(reader)
        self._places.clear()
        self.consumers = Consumers(single_active=False)
        for consumer in consumers:
            consumer.channel.forget(consumer)
        return consumers

    def deliver(self, now: float) -> Served:
        """Deliver loaded messages to consumers with credit, a share to each in turn."""
        served: Served = {}
        count, size = BATCH_MESSAGES_MAX, BATCH_BYTES_MAX
        idle: list[Consumer] = []
        self.more = False
        while (ring := self.consumers.next_ring()) is not None:
            if count <= 0 or size <= 0:
                self.more = True
                break
            consumer = ring.popleft()
            level, _ = self._places[consumer]
            share = min(consumer.credit(), count, SHARE_MESSAGES_MAX)
            taken = level.take(share, size)
            if taken is None:
                idle.append(consumer)
                continue
            given = len(taken.positions)
            unacked = give(consumer, taken, served, now)
            self.unacked += unacked
            self._traffic.deliver(given, unacked, redelivered=taken.redelivered)
            count -= given
            size -= sum(taken.sizes)
            ring.append(consumer)
        for consumer in idle:
            self.consumers.enter(consumer)
        self._source.end_turn(complete=not self.more)
        return served
