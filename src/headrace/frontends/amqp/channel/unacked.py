r"""A channel's unacknowledged deliveries: delivery tags, and their queues and positions.

Tags count all deliveries of a channel. A client settles by tag: the deliveries are grouped into
runs of one consumer, and each run is one call of its queue. Queues that may deliver because of that
are noted in `woken`.

    ready (in its queue) --deliver--> held under a tag --ack--> settled
      ^                                  |   |  ^ \--reject--> dead-lettered or dropped
      |                                  |   |  |
      |                                  |   +--+ removed by an uncommitted tx, held again if it
      |                                  |        is rolled back
      +--requeue, recover, channel ends--+

A delivery to a consumer with no-ack is settled when it is delivered, and never held.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, repeat
from operator import itemgetter

from headrace.frontends.amqp.channel.channel_traffic import ChannelTraffic
from headrace.queues.port import Consumer, Deliveries, Disposition, Queue
from headrace.queues.refusals import Refused
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode

UNACKED_MAX = 200_000
"""Deliveries that a channel holds at most if its client sets no limit: 50 MB of memory."""

Held = tuple[Consumer, int, int, float]
"""A delivery: consumer, position in its queue, bytes of the body, time (monotonic seconds).

A plain tuple, as one is made for each delivery.
"""
Unsent = tuple[Consumer, int, Deliveries]
"""A consumer, the first delivery tag and messages that are to be sent."""


class ChannelUnacked:
    """The unacknowledged deliveries of one channel, and its credit.

    Implements `port.Subscriber`.
    """

    __slots__ = (
        "_cancelled", "_lowest", "_send", "_unacked_max", "_unsent", "closed", "held", "limit",
        "next_tag", "number", "parked", "paused", "prefetch", "traffic", "unacked", "woken",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        unacked_max: int = UNACKED_MAX,
        send: Callable[[list[Unsent]], None] = lambda _: None,
        cancelled: Callable[[Consumer, Refused | None], None] = lambda *_: None,
    ) -> None:
        """Create a channel's unacknowledged deliveries.

        `unacked_max`: deliveries held at most if the client sets no limit.

        `send` sends deliveries to the client, `cancelled` notifies it of a consumer's end.
        """
        self.number = number
        self._unacked_max = self.limit = unacked_max
        """Unacknowledged deliveries that all consumers together may have now."""
        self.next_tag = 1
        self.traffic = ChannelTraffic()
        """Counters of the channel, also of its publishes."""
        self.held: dict[int, Held] = {}
        self.prefetch = 0
        """Prefetch limit of the channel (basic.qos with global); 0: none set."""
        self.unacked = 0
        """Number of unacknowledged deliveries that count against `limit`."""
        self.paused = False
        """Whether the client reads nothing at present, so that nothing is delivered."""
        self.parked: dict[Consumer, None] = {}
        self.closed = False
        self.woken: dict[Queue, None] = {}
        """Queues that may deliver after the channel's last calls: for `QueueHost.touched`."""
        self._unsent: list[Unsent] = []
        self._send = send
        self._cancelled = cancelled
        self._lowest = 1

    # Calls from queues: `port.Subscriber`

    def deliver(self, consumer: Consumer, deliveries: Deliveries, now: float) -> None:
        """Give messages the next tags, and hold them unless the consumer has no-ack."""
        tag, count = self.next_tag, len(deliveries.messages)
        self._unsent.append((consumer, tag, deliveries))
        self.next_tag = tag + count
        traffic = self.traffic
        if deliveries.redelivered:
            traffic.redeliver += count
        if consumer.no_ack:
            traffic.deliver_no_ack += count
            return
        traffic.deliver += count
        self.hold(consumer, tag, deliveries, now)

    def hold(self, consumer: Consumer, tag: int, deliveries: Deliveries, now: float) -> None:
        """Hold messages under the tags from `tag` on, received at `now` (monotonic seconds)."""
        positions, _, sizes, _, _ = deliveries
        count = len(positions)
        held = zip(repeat(consumer), positions, sizes, repeat(now))
        self.held.update(zip(range(tag, tag + count), held, strict=False))
        consumer.unacked += count
        if consumer.counted:
            self.unacked += count

    def got(self, consumer: Consumer, deliveries: Deliveries, now: float) -> int:
        """Return the tag of a basic.get's message, and hold it unless no-ack is set."""
        tag = self.next_tag
        self.next_tag = tag + 1
        traffic = self.traffic
        if deliveries.redelivered:
            traffic.redeliver += 1
        if consumer.no_ack:
            traffic.get_no_ack += 1
        else:
            traffic.get += 1
            self.hold(consumer, tag, deliveries, now)
        return tag

    def positions_of(self, consumer: Consumer) -> list[int]:
        """Return the positions of a consumer's held deliveries. Implements `port.Subscriber`."""
        return [position for each, position, _, _ in self.held.values() if each is consumer]

    def send(self) -> None:
        """Send the deliveries gathered so far to the client. Implements `port.Subscriber`."""
        unsent, self._unsent = self._unsent, []
        self._send(unsent)

    def chosen(self, consumer: Consumer) -> None:
        """Do nothing: clients are not told. Implements `port.Subscriber`."""

    def cancelled(self, consumer: Consumer, refused: Refused | None = None) -> None:
        """Notify the client that a consumer's queue was deleted or closed.

        Implements `port.Subscriber`.
        """
        self._cancelled(consumer, refused)

    # Settlements by the client

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, or with `multiple` all up to `tag` (0: all).

        Raises ChannelClosing for an unknown tag.
        """
        if multiple:
            self.acknowledge(self.take(tag, multiple=True))
            return
        held = self.held.pop(tag, None)
        if held is None:
            raise _unknown(tag)
        consumer, position, _, _ = held
        consumer.queue.settle(Disposition.ACKNOWLEDGED, (position,))
        self.traffic.ack += 1
        self.free(consumer, 1)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Requeue or reject a delivery, or several; raise ChannelClosing for an unknown tag."""
        held = self.take(tag, multiple=multiple)
        self.settle(Disposition.REQUEUED if requeue else Disposition.REJECTED, held)

    def recover(self) -> None:
        """Requeue all held deliveries (basic.recover with requeue)."""
        self.settle(Disposition.REQUEUED, self.take(0, multiple=True))

    def close(self) -> None:
        """Requeue all held deliveries; the channel's consumers were cancelled before."""
        self.closed = True
        self.recover()
        self.parked.clear()

    # Steps of a settlement, which a transaction takes at its commit

    def take(self, tag: int, *, multiple: bool) -> list[Held]:
        """Remove deliveries and return them in order, to be settled by the methods below.

        Tag 0 with `multiple` names all, if any. An unknown tag raises ChannelClosing (406) and
        removes nothing.
        """
        held = self.held
        if multiple and tag == 0:
            taken = list(held.values())
            held.clear()
            return taken
        if tag not in held:
            raise _unknown(tag)
        if not multiple:
            return [held.pop(tag)]
        tags = range(self._oldest(), tag + 1)
        return [held.pop(each) for each in tags if each in held]

    def give_back(self, taken: Iterable[tuple[int, Held]]) -> None:
        """Hold removed deliveries again under their tags (a transaction is rolled back)."""
        held = dict(sorted([*self.held.items(), *taken]))
        self.held.clear()
        self.held.update(held)
        self._lowest = min(held, default=self.next_tag)

    def acknowledge(self, taken: Iterable[Held]) -> None:
        """Acknowledge deliveries that `take` removed, one call for each run of a consumer."""
        for consumer, held in _runs(taken):
            positions = list(map(itemgetter(1), held))
            consumer.queue.settle(Disposition.ACKNOWLEDGED, positions)
            self.traffic.ack += len(held)
            self.free(consumer, len(held))

    def settle(self, disposition: Disposition, taken: Iterable[Held]) -> None:
        """Requeue or reject the deliveries that `take` returned, and note their queues in `woken`.

        A queue delivers requeued messages again, and publishes dead letters of rejected ones.
        """
        for consumer, held in _runs(taken):
            _, positions, sizes, _ = zip(*held, strict=True)
            consumer.queue.settle(disposition, positions, sizes)
            self.woken[consumer.queue] = None
            self.free(consumer, len(held))

    # Credit

    def set_prefetch(self, prefetch: int) -> None:
        """Set the limit of all consumers together; 0: the broker's limit."""
        self.prefetch = prefetch
        self.limit = prefetch or self._unacked_max
        self._unpark_all()

    def pause(self) -> None:
        """Deliver nothing to this channel until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Deliver to this channel again, after `pause`."""
        self.paused = False
        self._unpark_all()

    def park(self, consumer: Consumer) -> None:
        """Note a consumer that its queue left out because it has no credit."""
        consumer.parked = True
        self.parked[consumer] = None

    def forget(self, consumer: Consumer) -> None:
        """Unpark a cancelled consumer; its deliveries stay held."""
        consumer.parked = False
        self.parked.pop(consumer, None)

    def free(self, consumer: Consumer, count: int) -> None:
        """Give back the room of deliveries. Implements `port.Subscriber`."""
        consumer.unacked -= count
        if consumer.counted:
            before = self.unacked
            self.unacked = before - count
            if before >= self.limit and self.parked:
                self._unpark_all()
                return
        if consumer.parked:
            self._unpark(consumer)

    def _unpark_all(self) -> None:
        for consumer in tuple(self.parked):
            self._unpark(consumer)

    def _unpark(self, consumer: Consumer) -> None:
        if consumer.credit() > 0:
            self.forget(consumer)
            consumer.queue.credit(consumer)
            self.woken[consumer.queue] = None

    # Time

    def next_deadline(self, timeout_ms: int = 0) -> float | None:
        """Return the monotonic time at which the oldest delivery times out, or None.

        `timeout_ms` is for queues without a timeout, 0: none. As in RabbitMQ only the oldest
        delivery is checked: if its queue has no timeout, the channel has none until it is settled.
        """
        held = self.held.get(self._oldest())
        if held is None:
            return None
        timeout_ms = _timeout_of(held, timeout_ms)
        return held[3] + timeout_ms / 1000 if timeout_ms else None

    def expire(self, now: float, timeout_ms: int = 0) -> None:
        """Raise ChannelClosing (406) if the oldest delivery has timed out."""
        deadline = self.next_deadline(timeout_ms)
        if deadline is not None and deadline <= now:
            timeout_ms = _timeout_of(self.held[self._oldest()], timeout_ms)
            raise ChannelClosing(
                ReplyCode.PRECONDITION_FAILED,
                f"delivery acknowledgement on channel {self.number} timed out. "
                f"Timeout value used: {timeout_ms} ms. "
                "This timeout value can be configured, see consumers doc guide to learn more",
            )

    def _oldest(self) -> int:
        """Return the lowest held tag, or the next tag if none is held."""
        held, lowest, end = self.held, self._lowest, self.next_tag
        if not held:
            lowest = end
        while lowest < end and lowest not in held:
            lowest += 1
        self._lowest = lowest
        return lowest


def _runs(taken: Iterable[Held]) -> Iterator[tuple[Consumer, list[Held]]]:
    """Yield (consumer, its deliveries) for each run of neighbouring deliveries to one consumer."""
    for consumer, held in groupby(taken, itemgetter(0)):
        yield consumer, list(held)


def _timeout_of(held: Held, timeout_ms: int) -> int:
    own = held[0].queue.consumer_timeout_ms
    return timeout_ms if own is None else own


def _unknown(tag: int) -> ChannelClosing:
    return ChannelClosing(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
