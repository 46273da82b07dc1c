"""The port between a protocol's channel and a queue.

Calls go from the channel to the queue, events from the queue to the channel. All of them happen on
the deciding thread, and none of them waits: results that take time come by a callback, which may be
called at once.

    channel -> queue                                  queue -> channel (`Subscriber`)
    publish(message, now)    accept a message         deliver     messages for one consumer
    when_stored(done)        all published so far     send        the messages since: end of a batch
    consume(.., done)        a consumer               park        a consumer's credit is used up
    cancel(consumer)                                  cancelled   the queue is deleted or closed
    credit(consumer)         it has credit again
    settle(...)              deliveries, many at once
    get(getter, now)         one message, or none
    ask_purge, ask_info      settle what is ready; counts

A delivery is named by its queue and a position, an integer that the queue chose. The channel stores
`tag -> (consumer, position, size, time)` and passes positions to `settle`. The queue has no tags,
and a channel does not access a queue's state.

Order: messages of one channel come in the order of its publishes, settlements and credit in the
order of the calls, deliveries of one queue to one channel in the order of `deliver`. `when_stored`
is about all messages published before it, and reports those that are never stored: all, or by their
numbers where the target has some (`last_number`).

Bounds: a consumer is delivered no more than `Consumer.credit` returns, from numbers that the
channel sets and the queue only reads and increments (`Subscriber.limit`, `unacked`); a queue on
another broker is sent that number with `credit`. A channel's deliveries are bounded by its `limit`.

Errors: `Refused` before anything has changed; `HeadraceError` from `publish`: the message is stored
nowhere. A queue whose state contradicts itself is closed, alone (`engine/closed_queue.py`).

Implementations: `engine/hosted_queue.py` (messages in memory or on a log),
`engine/stream_queue.py`, and for publishes alone `engine/targets.py` (a Kafka topic).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError
from headrace.queue_stores.queue_settings import (
    ConsumerSettings,
    Published,
    QueueSettings,
    StreamOffset,
    StreamStart,
)
from headrace.queues.refusals import Refused
from headrace.wire.amqp.content import Message

ANY_NUMBER = 1 << 62
_NO_WISHES = ConsumerSettings()
ALL_STORED: Collection[int] = range(0)
"""The numbers of unstored publishes where all are stored."""
ALL_UNSTORED: Collection[int] = range(1 << 62)
"""The numbers of unstored publishes where it is not known that any is stored."""
UnstoredDone = Callable[[Collection[int]], None]
"""Takes the numbers of publishes that are never stored: `ALL_STORED`, `ALL_UNSTORED`, or some."""


class Disposition(Enum):
    """The ways in which a client settles a delivery: ack, requeue, reject."""

    ACKNOWLEDGED = "acknowledged"
    REQUEUED = "requeued"
    """The message is ready again at its position, unless it reached the delivery limit."""
    REJECTED = "rejected"
    """The message is dead-lettered, or dropped without a dead letter exchange."""
    UNDELIVERED = "undelivered"
    """As `REQUEUED`, but not counted: the message did not reach its consumer, which is cancelled.

    RabbitMQ 4.3 counts no such return either; it does count those of a broker that is gone.
    """


Settlements = Mapping[Disposition, Sequence[int]]
"""Settled positions of a queue, by disposition."""
_NOT_SETTLED: Settlements = {}


class Deliveries(NamedTuple):
    """Messages for one consumer, in their order; the sequences are equally long."""

    positions: Sequence[int]
    messages: Sequence[Message]
    sizes: Sequence[int]
    """Bytes of the messages' bodies."""
    redelivered: bool
    """Whether the messages may have been delivered before."""
    returns: Sequence[int] | None = None
    """Number of requeues of each message, if a delivery limit counts them; None: all 0."""


class Got(NamedTuple):
    """A message for a basic.get, with the count of ready messages left."""

    deliveries: Deliveries
    """The message, as the only delivery."""
    ready: int
    """Number of ready messages that are left."""


class QueueInfo(NamedTuple):
    """A queue's counts of ready and unacknowledged messages and of consumers."""

    ready: int
    ready_bytes: int
    """Bytes of the bodies of ready messages."""
    unacked: int
    consumers: int


NO_INFO = QueueInfo(0, 0, 0, 0)
"""The counts of an empty queue without consumers."""


class Subscriber(Protocol):
    """A channel, as the queues of its consumers see it: its credit, and the events."""

    limit: int
    """Unacknowledged deliveries that its consumers together may have."""
    unacked: int
    """Unacknowledged deliveries that count against `limit`."""
    prefetch: int
    """The limit that the client set for the channel; 0: none set."""
    closed: bool

    @property
    def parked(self) -> "Collection[Consumer]":
        """Consumers that wait for room: see `park`."""

    @property
    def paused(self) -> bool:
        """Whether the client reads nothing at present, so that nothing is delivered."""

    def deliver(self, consumer: "Consumer", deliveries: Deliveries, now: float) -> None:
        """Accept messages for a consumer, and hold them unless the consumer has no-ack."""

    def send(self) -> None:
        """Send the messages of `deliver` since the last call: the queue's batch is complete."""

    def positions_of(self, consumer: "Consumer") -> Sequence[int]:
        """Return the positions of a consumer's unacknowledged deliveries."""

    def park(self, consumer: "Consumer") -> None:
        """Note that a consumer has no credit: `Queue.credit` is called when it has some again."""

    def free(self, consumer: "Consumer", count: int) -> None:
        """Give back room that a queue has counted in `unacked`, for messages not delivered yet."""

    def forget(self, consumer: "Consumer") -> None:
        """Note that a parked consumer, now cancelled, no longer waits for credit."""

    def chosen(self, consumer: "Consumer") -> None:
        """Note that a consumer became the queue's single active one, or is it no longer."""

    def cancelled(self, consumer: "Consumer", refused: Refused | None = None) -> None:
        """Note that a consumer was cancelled by its queue, which is deleted.

        With `refused` the queue was closed by an error, which its clients are sent.
        """


class Consumer:
    """A consumer of a queue on a channel; also the requester of a basic.get."""

    __slots__ = (
        "active", "channel", "counted", "exclusive", "gone", "hands_over", "no_ack", "parked",
        "prefetch", "priority", "queue", "tag", "unacked", "wishes",
    )  # fmt: skip

    def __init__(
        self,
        queue: "Queue",
        channel: Subscriber,
        tag: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        prefetch: int = 0,
        priority: int = 0,
        counted: bool = True,
        wishes: ConsumerSettings = _NO_WISHES,
    ) -> None:
        """Create a consumer.

        `prefetch`: limit of this consumer, 0: none. `counted`: False for a basic.get.

        `wishes` are settings of a stream's consumer.
        """
        self.queue = queue
        self.channel = channel
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.counted = counted
        """Whether its deliveries count against the channel's limit."""
        self.wishes = wishes
        self.unacked = 0
        self.parked = False
        """Whether the queue left the consumer out of its ring because it has no credit."""
        self.active = False
        """Whether it is the queue's single active consumer, at the leader or at the one before."""
        self.hands_over = False
        """Whether another single active consumer follows once its deliveries are settled."""
        self.gone = False
        """Whether the consumer is cancelled; it may still be in its ring."""

    def read_on_from(self, offset: int) -> None:
        """Have a stream's consumer begin at an offset where another broker leads the stream."""
        begin = StreamOffset(StreamStart.OFFSET, offset)
        self.wishes = self.wishes._replace(stream_offset=begin)

    def credit(self) -> int:
        """Return how many messages may be delivered to the consumer.

        As in RabbitMQ, a channel's limit also stops a consumer with no-ack, whose deliveries do not
        count against it; the consumer's own prefetch does not.
        """
        if self.gone:
            return 0
        if self.hands_over:  # gets nothing, and has credit again once nothing is unacknowledged
            return 0 if self.unacked else 1
        channel = self.channel
        if channel.paused:
            return 0
        room = channel.limit - channel.unacked
        if self.no_ack:
            return ANY_NUMBER if room > 0 or not channel.prefetch else 0
        return min(room, self.prefetch - self.unacked) if self.prefetch else room


class Handover(NamedTuple):
    """The state of a queue's channels that its former leader tells the next one."""

    consumers: "Sequence[Consumer]" = ()
    settled: Settlements = _NOT_SETTLED
    """Settlements that the next leader may not have."""
    held: Sequence[int] = ()
    """Unsettled deliveries by basic.get, of cancelled consumers, and in open transactions."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.consumers or self.held or any(self.settled.values()))


NO_HANDOVER = Handover()
GotDone = Callable[[Got | HeadraceError | None], None]
"""Takes the message of a basic.get, or the error; None: no message is ready."""
PurgeDone = Callable[[int | Refused], None]
"""Takes the number of settled messages, or the refusal."""
ConsumeDone = Callable[[Refused | None], None]
"""Takes None once a consumer is added, or the refusal."""


class Getter(NamedTuple):
    """A basic.get that waits for its message."""

    consumer: Consumer
    done: GotDone


class Target(Protocol):
    """A destination of published messages: a queue or a Kafka topic."""

    title: str
    """Its name in texts: `queue 'q' in vhost '/'`."""
    failure: str | None
    """Why it could not store a message; None: no failure to report.

    Reported to publishers without confirms, whose connection is closed.
    """

    @property
    def confirms_late(self) -> bool:
        """Whether the target reports messages as stored some time after `publish`."""

    @property
    def confirms_transient(self) -> bool:
        """Whether confirms wait also for messages that are not persistent."""

    @property
    def last_number(self) -> int | None:
        """Its number of the message accepted last; None: it refuses no single message later."""

    def publish(self, published: Published, now: float) -> bool:
        """Accept a message; return False if the queue is full. HeadraceError: not stored."""

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` once each message published so far is stored or never will be.

        A target that numbers its messages reports them so, any other one all or none.
        """


class Queue(Target, Protocol):
    """A queue, as a channel sees it; a vhost's host (`engine/queue_host.py`) finds it by name."""

    name: str
    consumer_timeout_ms: int | None
    """Milliseconds a delivery may be unacknowledged; 0: unlimited, None: broker's setting."""

    @property
    def settings(self) -> QueueSettings:
        """The present settings of the queue."""

    def apply(self, settings: QueueSettings) -> None:
        """Use other settings from now on: a policy of the queue was set, changed or cleared."""

    def consume(self, consumer: Consumer, now: float, done: ConsumeDone) -> None:
        """Add a consumer, and call `done` then; Refused is raised at once, or passed to `done`.

        Refused: another consumer is exclusive, or this one is and not alone.
        """

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer, if registered; its deliveries stay with its channel."""

    def credit(self, consumer: Consumer) -> None:
        """Let a parked consumer that has credit again take turns."""

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Settle deliveries of one consumer; `sizes` of bodies are given with requeued ones."""

    def get(self, getter: Getter, now: float) -> None:
        """Give the next message to a basic.get, now or once it is loaded; raise Refused."""

    def ask_purge(self, done: PurgeDone) -> None:
        """Settle all ready messages, and call `done`; Refused is raised, or passed to `done`."""

    def ask_info(self, done: Callable[[QueueInfo], None]) -> None:
        """Call `done` with the queue's counts, as far as they are known within a second."""
