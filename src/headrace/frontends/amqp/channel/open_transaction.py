"""Publishes and settlements of a channel's uncommitted transaction (class tx)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.amqp.channel.unacked import ChannelUnacked, Held
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.queue_stores.queue_settings import Published
from headrace.queues.model.routing import Route
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import Settlement

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited


class Routed(NamedTuple):
    """A publish that was checked and routed, with the targets of its route."""

    message: Message
    """The message as published, which basic.return sends back."""
    published: Published
    route: Route
    mandatory: bool
    is_reply: bool


class Transaction:
    """Publishes and settlements that wait for tx.commit."""

    def __init__(self, note: Callable[[int], None]) -> None:
        """Create an empty transaction.

        `note` is called with the bytes of a publish, and with a negative number at its end.
        """
        self._note = note
        self._bytes = 0
        self._publishes: list[Routed] = []
        self.settled: list[tuple[bool | None, list[tuple[int, Held]]]] = []
        """Settlements: `requeue` as in `Settlement`, and the deliveries with their tags."""
        self.awaited: Awaited = {}
        """Queues and topics that store committed messages later."""

    def publish(self, routed: Routed) -> None:
        """Add a publish; raise ConnectionClosing over the limit of uncommitted bytes."""
        size = len(routed.message.header) + len(routed.message.body) + MESSAGE_BYTES
        self._bytes += size
        self._publishes.append(routed)
        self._note(size)

    def take_publishes(self) -> list[Routed]:
        """Remove and return all publishes of the transaction."""
        publishes, self._publishes = self._publishes, []
        size, self._bytes = self._bytes, 0
        self._note(-size)
        return publishes

    def settle(self, unacked: ChannelUnacked, settlement: Settlement) -> None:
        """Add an ack, nack or reject; raise ChannelClosing for an unknown tag."""
        _, tag, multiple, requeue = settlement
        held = unacked.held
        before = dict(held) if multiple else {tag: held[tag]} if tag in held else {}
        unacked.take(tag, multiple=multiple)
        taken = [(each, before[each]) for each in before if each not in held]
        self.settled.append((requeue, taken))

    def roll_back(self, unacked: ChannelUnacked) -> None:
        """Drop the publishes, and make the settled deliveries unacknowledged again."""
        self.take_publishes()
        unacked.give_back([held for _, taken in self.settled for held in taken])
        self.settled.clear()
