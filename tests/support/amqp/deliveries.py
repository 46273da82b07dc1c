"""Channels without a connection: what queues deliver to them, as tests look at it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NoReturn

from headrace.frontends.amqp.channel.unacked import UNACKED_MAX, ChannelUnacked, Unsent
from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queues.port import Consumer, Deliveries, Getter, Got
from headrace.queues.refusals import Refused
from headrace.wire.amqp.content import Message

if TYPE_CHECKING:
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.message_queue import MessageQueue
    from headrace.queues.port import Queue

Delivery = tuple[Consumer, int, Message, bool, int]
"""Consumer, delivery tag, message, redelivered, how often it was requeued."""


class ChannelKit(ChannelUnacked):
    """A channel; `delivered` returns what queues delivered to all of them, in their order."""

    __slots__ = ("_sent",)
    log: ClassVar[list[Delivery]] = []

    def __init__(
        self,
        number: int = 1,
        unacked_max: int = UNACKED_MAX,
        sent: Callable[[list[Delivery]], None] | None = None,
        cancelled: Callable[[Consumer, Refused | None], None] = lambda *_: None,
    ) -> None:
        """`sent` is told what the client is sent; None: `delivered` returns it."""
        super().__init__(number, unacked_max, self._send_all, cancelled)
        self._sent = sent

    def deliver(self, consumer: Consumer, deliveries: Deliveries, now: float) -> None:
        """Note the deliveries."""
        if self._sent is None:
            ChannelKit.log += as_list(consumer, self.next_tag, deliveries)
        super().deliver(consumer, deliveries, now)

    def _send_all(self, unsent: list[Unsent]) -> None:
        if self._sent is not None:
            self._sent([each for part in unsent for each in as_list(*part)])


def raised(_: "AnyQueue", error: InvariantError) -> NoReturn:
    """Fail the test: a queue's invariant is broken. `Hooks.broke`."""
    raise error


def as_list(consumer: Consumer, tag: int, deliveries: Deliveries) -> list[Delivery]:
    """Return deliveries one by one, from a tag on."""
    returns = deliveries.returns or [0] * len(deliveries.messages)
    return [
        (consumer, tag + at, message, deliveries.redelivered, returns[at])
        for at, message in enumerate(deliveries.messages)
    ]


def taken_of(queue: "MessageQueue | AnyQueue") -> list[Delivery]:
    """Return what a queue has delivered and no test has looked at."""
    found = [delivery for delivery in ChannelKit.log if delivery[0].queue is queue]
    ChannelKit.log = [delivery for delivery in ChannelKit.log if delivery[0].queue is not queue]
    return found


def delivered(queue: "MessageQueue | AnyQueue", now: float) -> list[Delivery]:
    """Have a queue deliver; returns what it delivered, also before this."""
    for channel in queue.deliver(now):
        channel.send()
    return taken_of(queue)


def got(
    queue: "MessageQueue", channel: ChannelUnacked, now: float, *, no_ack: bool = False
) -> Delivery | None:
    """Do a basic.get of a message that is loaded."""
    consumer = Consumer(queue, channel, "", no_ack=no_ack, counted=False)  # type: ignore[arg-type]
    found = queue.take_one(consumer, now)
    return None if found is None else _held(channel, consumer, found, now)


def getter(
    queue: "AnyQueue | Queue",
    channel: ChannelUnacked,
    done: Callable[[Delivery | HeadraceError | None], object],
    now: float,
    *,
    no_ack: bool = False,
) -> Getter:
    """Return a basic.get."""
    consumer = Consumer(queue, channel, "", no_ack=no_ack, counted=False)

    def given(found: Got | HeadraceError | None) -> None:
        done(_held(channel, consumer, found, now) if isinstance(found, Got) else found)

    return Getter(consumer, given)


def _held(channel: ChannelUnacked, consumer: Consumer, found: Got, now: float) -> Delivery:
    tag = channel.got(consumer, found.deliveries, now)
    return as_list(consumer, tag, found.deliveries)[0]
