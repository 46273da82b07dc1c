"""What a channel has published and settled, and not committed yet."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.amqp.channel.unacked import ChannelUnacked, Held
from headrace.queues.model.routing import Route
from headrace.queues.queue_settings import Published
from headrace.queues.stores.memory.message_run import MESSAGE_BYTES
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import Settlement

if TYPE_CHECKING:
    from headrace.queues.port import Target


class Routed(NamedTuple):
    """A publish that was checked and routed."""

    message: Message
    """As it came, to be returned."""
    published: Published
    route: Route
    mandatory: bool
    is_reply: bool


class Transaction:
    """What a channel publishes and settles until it commits."""

    def __init__(self, note: Callable[[int], None]) -> None:
        """`note` is told of the bytes of what is published, and of fewer when they are taken."""
        self._note = note
        self._bytes = 0
        self._publishes: list[Routed] = []
        self.settled: list[tuple[bool | None, list[tuple[int, Held]]]] = []
        """`requeue` as in Settlement, and what was taken out, by tags."""
        self.awaited: dict[Target, None] = {}
        """Queues and topics that keep what is committed later."""

    def publish(self, routed: Routed) -> None:
        """Note a message. ConnectionClosing: there are too many."""
        size = len(routed.message.header) + len(routed.message.body) + MESSAGE_BYTES
        self._bytes += size
        self._publishes.append(routed)
        self._note(size)

    def take_publishes(self) -> list[Routed]:
        """Return what was published; it is not noted any more."""
        publishes, self._publishes = self._publishes, []
        size, self._bytes = self._bytes, 0
        self._note(-size)
        return publishes

    def settle(self, unacked: ChannelUnacked, settlement: Settlement) -> None:
        """Note an ack, a nack or a reject. ChannelClosing: there is no such delivery."""
        _, tag, multiple, requeue = settlement
        held = unacked.held
        before = dict(held) if multiple else {tag: held[tag]} if tag in held else {}
        unacked.take(tag, multiple=multiple)
        taken = [(each, before[each]) for each in before if each not in held]
        self.settled.append((requeue, taken))

    def roll_back(self, unacked: ChannelUnacked) -> None:
        """Forget what was published, and hold again what was settled."""
        self.take_publishes()
        unacked.give_back([held for _, taken in self.settled for held in taken])
        self.settled.clear()
