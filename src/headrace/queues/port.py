"""The port between a protocol's channel and a queue.

Calls go from the channel to the queue, events from the queue to the channel. All of them happen on
the deciding thread; none of them waits. What takes time is told by a callback, perhaps at once.

    channel -> queue                                  queue -> channel (`Subscriber`)
    publish(message, now)    take a message           deliver     messages for one consumer
    when_stored(done)        all published so far     send        the messages since: end of a batch
    consume, cancel          a consumer               park        a consumer's credit is used up
    credit(consumer)         it may take again        cancelled   the queue does without it
    settle(...)              deliveries, many at once
    get(getter, now)         one message, or none
    purge(done)              what is ready
    info()                   numbers for answers and lists

A delivery is named by its queue and a position, an integer that the queue chose; the channel keeps
`tag -> (consumer, position, size, time)` and gives positions back in `settle`. The queue keeps no
tags, and a channel does not look into a queue.

Order: messages of one channel come in the order of its publishes, settlements and credit in the
order of the calls, deliveries of one queue to one channel in the order of `deliver`. `when_stored`
is about all that was published before it, whatever comes later.

Bounds: a consumer is delivered no more than `Consumer.credit` says, numbers that the channel sets
and the queue only reads and counts up (`Subscriber.limit`, `unacked`); a queue on another broker
is sent that number with `credit`. What a channel holds is bounded by its `limit`.

Errors: `Refused` before anything has changed; `HeadraceError` from `publish`: the message is stored
nowhere. A queue whose state contradicts itself is closed, alone (`engine/closed_queue.py`).

Implementers: `engine/hosted_queue.py` (messages in memory or on a log), `engine/stream_queue.py`,
and for publishes alone `engine/targets.py` (a Kafka topic).
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError
from headrace.queues.message_store import StoredDone
from headrace.queues.queue_settings import ConsumerSettings, Published, QueueSettings
from headrace.queues.refusals import Refused
from headrace.wire.amqp.content import Message

ANY_NUMBER = 1 << 62
_NO_WISHES = ConsumerSettings()


class Disposition(Enum):
    """How a client settles a delivery."""

    ACKNOWLEDGED = "acknowledged"
    REQUEUED = "requeued"
    """The message goes back to its place, unless it came back too often."""
    REJECTED = "rejected"
    """The message is dead-lettered, or dropped."""


class Deliveries(NamedTuple):
    """Messages for one consumer, in their order; the sequences are equally long."""

    positions: Sequence[int]
    messages: Sequence[Message]
    sizes: Sequence[int]
    """Bytes of their bodies."""
    redelivered: bool
    """They may have been delivered before."""
    returns: Sequence[int] | None = None
    """How often each was requeued, where a delivery limit counts that; None: never."""


class Got(NamedTuple):
    """The answer to basic.get."""

    deliveries: Deliveries
    """The message."""
    ready: int
    """Messages that are left."""


class QueueInfo(NamedTuple):
    """A queue's numbers."""

    ready: int
    ready_bytes: int
    """Bytes of the bodies of ready messages."""
    unacked: int
    consumers: int


class Subscriber(Protocol):
    """A channel, as the queues of its consumers know it: its credit, and the events."""

    limit: int
    """The deliveries that its consumers may hold together."""
    unacked: int
    """The deliveries that they hold."""
    prefetch: int
    """The limit that the client asked for; 0: it asked for none."""
    paused: bool
    """Its client takes nothing at present."""
    closed: bool

    def deliver(self, consumer: "Consumer", deliveries: Deliveries, now: float) -> None:
        """Take messages for a consumer, and hold them unless it acknowledges nothing."""

    def send(self) -> None:
        """Send what `deliver` brought since the last call: the queue's batch is complete."""

    def park(self, consumer: "Consumer") -> None:
        """Note that a consumer's credit is used up: call `Queue.credit` when it has some again."""

    def forget(self, consumer: "Consumer") -> None:
        """Note that a consumer waits for no credit any more."""

    def cancelled(self, consumer: "Consumer", refused: Refused | None = None) -> None:
        """Note that a consumer was cancelled by its queue, which is deleted.

        `refused`: the queue was closed, and this is what its clients are told.
        """


class Consumer:
    """A consumer of a queue on a channel; also the requester of a basic.get."""

    __slots__ = (
        "channel", "counted", "exclusive", "gone", "hands_over", "no_ack", "parked",
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
        """`prefetch`: of this consumer alone, 0: any number. `counted`: no basic.get.

        `wishes`: what a stream's consumer wants of it.
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
        """The queue leaves it out because it has no credit."""
        self.hands_over = False
        """It was the active one of its queue: another is, once what it holds is settled."""
        self.gone = False
        """It is cancelled, and may still be in its ring."""

    def credit(self) -> int:
        """Return how many messages may be delivered to it.

        A channel's limit also stops a consumer that does not acknowledge, though it does not count,
        as in RabbitMQ; its own prefetch does not.
        """
        if self.gone:
            return 0
        if self.hands_over:  # it is given nothing, and has credit again when it holds nothing
            return 0 if self.unacked else 1
        channel = self.channel
        if channel.paused:
            return 0
        room = channel.limit - channel.unacked
        if self.no_ack:
            return ANY_NUMBER if room > 0 or not channel.prefetch else 0
        return min(room, self.prefetch - self.unacked) if self.prefetch else room


GotDone = Callable[[Got | HeadraceError | None], None]
"""Takes the message of a basic.get, or why it cannot be read; None: no message is ready."""


class Getter(NamedTuple):
    """A basic.get."""

    consumer: Consumer
    done: GotDone


class Target(Protocol):
    """Takes published messages: a queue, or a Kafka topic."""

    title: str
    """How texts name it: `queue 'q' in vhost '/'`."""
    failure: str | None
    """Why it could not store a message; None: publishers that ask for no confirms know all."""

    @property
    def confirms_late(self) -> bool:
        """Whether `when_stored` may call back later."""

    @property
    def confirms_transient(self) -> bool:
        """Whether it does so for messages that are not persistent, too."""

    def publish(self, published: Published, now: float) -> bool:
        """Take a message; False: there is no room for it. HeadraceError: it could not be stored."""

    def when_stored(self, done: StoredDone) -> None:
        """Call `done` once all published so far is stored; False: it never will be."""


class Queue(Target, Protocol):
    """A queue, as a channel knows it. A vhost's host (`engine/queue_host.py`) finds it by name."""

    name: str
    consumer_timeout_ms: int | None
    """How long a delivery may stay unacknowledged; 0: any time, None: the broker's setting."""

    @property
    def settings(self) -> QueueSettings:
        """What it was declared with."""

    def consume(self, consumer: Consumer, now: float) -> None:
        """Add a consumer. Refused: another has the queue for itself, or this one would."""

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer, if it is there. What it holds stays with its channel."""

    def credit(self, consumer: Consumer) -> None:
        """Let a consumer take part again that had used up its credit."""

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Settle deliveries of one consumer; `sizes` of their bodies are told of requeued ones."""

    def get(self, getter: Getter, now: float) -> None:
        """Give the next message to a basic.get, now or when it has been read. Refused."""

    def info(self) -> QueueInfo:
        """Return the queue's numbers as they are known here."""
