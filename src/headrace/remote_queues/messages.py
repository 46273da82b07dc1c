"""Calls from a home to a queue's leader, and events from the leader to the home.

`queue` is the home's number of a queue in the session, never used for another queue or leadership;
`consumer` its number of a consumer, never used for another one. `request` matches an event to its
call.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.queue_stores.queue_settings import ConsumerSettings
from headrace.queues.port import Disposition, QueueInfo
from headrace.queues.refusals import Refused
from headrace.record.record_parts import NO_PRODUCER, ProducerBatch
from headrace.wire.amqp.content import Message

CALL_BYTES = 64
"""Estimated bytes of a call or an event, without messages and positions."""
POSITION_BYTES = 8


class Open(NamedTuple):
    """Name a queue by a number for all later calls of the session."""

    queue: int
    vhost: str
    name: str


class Publish(NamedTuple):
    """Publish messages, numbered from `first` on; answered by `Stored`."""

    queue: int
    first: int
    over_length: bool
    messages: list[Message]
    timestamp: int = 0
    """Milliseconds since 1970, the timestamp of the records."""
    producer: ProducerBatch = NO_PRODUCER
    """The messages' place in the home's sequence, by which the log recognises them."""
    round: int = 0
    """How often the leader has answered `Room` for the queue; it ignores calls of before."""
    batch: bytes = b""
    """At the leader, the messages as a record batch; the home leaves it empty."""


class Reply(NamedTuple):
    """Deliver a direct reply to the channel that its routing key names; answered by `Stored`.

    `Stored` reports a reply as unstored that no channel expects. `queue` is the home's number of
    its replies to the broker, and `first` the number of this one.
    """

    queue: int
    first: int
    asks: bool
    """Whether it is only asked if there is such a channel."""
    messages: list[Message]


class Hold(NamedTuple):
    """Hold positions that a consumer of the home was delivered by a former leader."""

    queue: int
    consumer: int
    positions: Sequence[int]


class Consume(NamedTuple):
    """Add a consumer with its first credit; answered by `Consuming`."""

    queue: int
    consumer: int
    tag: str
    no_ack: bool
    exclusive: bool
    prefetch: int
    wishes: ConsumerSettings
    credit: int
    active: bool
    """Whether it was the single active consumer at the leader before."""


class Cancel(NamedTuple):
    """Remove a consumer of which the home has received the first `received` deliveries."""

    queue: int
    consumer: int
    received: int


class Credit(NamedTuple):
    """Raise the number of deliveries, counted from the subscription, that a consumer may have."""

    queue: int
    consumer: int
    credit: int


class Recall(NamedTuple):
    """Take back the credit that a consumer has not used; answered by `Recalled`."""

    queue: int
    consumer: int


class Settle(NamedTuple):
    """Settle deliveries of one consumer; answered by `Copied` unless `number` is 0."""

    queue: int
    consumer: int
    disposition: Disposition
    positions: list[int]
    number: int = 0


class Attached(NamedTuple):
    """Note that the home has named all its positions and consumers of a queue."""

    queue: int


class Get(NamedTuple):
    """Get one message, held by the number `consumer`; answered by `GotMessage`."""

    queue: int
    consumer: int
    request: int
    no_ack: bool


class Purge(NamedTuple):
    """Settle all ready messages; answered by `PurgeEnded`."""

    queue: int
    request: int


class Info(NamedTuple):
    """Ask for a queue's counts; answered by `Counted`."""

    queue: int
    request: int


class CloseIfEmpty(NamedTuple):
    """Ask for the counts, as `Info`; if no message is ready, have publishes wait for `Reopen`.

    The home is about to have the queue deleted as an empty one.
    """

    queue: int
    request: int


class Reopen(NamedTuple):
    """Note that the queue is not deleted after `CloseIfEmpty`."""

    queue: int


class Leave(NamedTuple):
    """Note that the home has closed the queue; it opens it again for its next use."""

    queue: int


Call = (
    Open | Publish | Hold | Consume | Cancel | Credit | Recall | Settle | Attached | Get | Purge
    | Info | Reply | CloseIfEmpty | Reopen | Leave
)  # fmt: skip


class QueueCalls(NamedTuple):
    """A request: calls from the number `first` on."""

    first: int
    calls: Sequence[Call]


class Delivered(NamedTuple):
    """Messages for a consumer; fields as in `port.Deliveries`."""

    queue: int
    consumer: int
    positions: Sequence[int]
    messages: Sequence[Message]
    redelivered: bool
    returns: Sequence[int] | None


class Opened(NamedTuple):
    """The queue is led here; its log takes batches with up to `batch_bytes_max` bytes of messages.

    0: it has no log, or not yet, and takes any.
    """

    queue: int
    batch_bytes_max: int


class Moved(NamedTuple):
    """The queue is not led here, or not any more."""

    queue: int


class Room(NamedTuple):
    """The queue has room for the first `room` messages of a batch, and took none."""

    queue: int
    first: int
    room: int


class Copied(NamedTuple):
    """Settlements, by their numbers, are durable on all replicas that may lead next."""

    queue: int
    numbers: Sequence[int]


class Recalled(NamedTuple):
    """Unused credit is taken back: a consumer may have `credit` deliveries, all made by now."""

    queue: int
    consumer: int
    credit: int


class Chosen(NamedTuple):
    """A consumer became the queue's single active one, or is it no longer."""

    queue: int
    consumer: int
    active: bool


class Stored(NamedTuple):
    """Messages from `first` on are stored, but for the numbers in `unstored`."""

    queue: int
    first: int
    unstored: Sequence[int]


class Consuming(NamedTuple):
    """A consumer is added, or refused."""

    queue: int
    consumer: int
    refused: Refused | None


class Begun(NamedTuple):
    """A stream's consumer begins at an offset, also with the next leader; before its messages."""

    queue: int
    consumer: int
    offset: int


class Cancelled(NamedTuple):
    """A consumer was cancelled: its queue is deleted, or closed with an error."""

    queue: int
    consumer: int
    refused: Refused | None


class GotMessage(NamedTuple):
    """The message of a `Get`, if any, with the number of ready messages left; or the refusal."""

    queue: int
    request: int
    position: int
    message: Sequence[Message]
    redelivered: bool
    returns: int
    ready: int
    refused: Refused | None


class PurgeEnded(NamedTuple):
    """The number of messages that a purge has settled, or the refusal."""

    queue: int
    request: int
    settled: int
    refused: Refused | None


class Counted(NamedTuple):
    """A queue's counts."""

    queue: int
    request: int
    info: QueueInfo


Event = (
    Opened | Moved | Delivered | Stored | Room | Copied | Consuming | Cancelled | Recalled
    | GotMessage | PurgeEnded | Counted | Begun | Chosen
)  # fmt: skip


def size_of(message: Call | Event) -> int:
    """Return the approximate bytes that a call or an event holds."""
    match message:
        case Publish() | Delivered() | Reply():
            size = sum([len(each.body) + len(each.header) for each in message.messages])
            return CALL_BYTES * (1 + len(message.messages)) + size
        case GotMessage(message=messages):
            return CALL_BYTES + sum(len(each.body) + len(each.header) for each in messages)
        case Settle(positions=positions) | Hold(positions=positions):
            return CALL_BYTES + POSITION_BYTES * len(positions)
        case Copied(numbers=numbers):
            return CALL_BYTES + POSITION_BYTES * len(numbers)
        case _:
            return CALL_BYTES
