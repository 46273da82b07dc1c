r"""A channel's unacknowledged deliveries: which position of which queue a delivery tag names.

Tags count a channel's deliveries, of all its queues. A channel settles by tag; this finds which
queues' deliveries those are and tells each queue once for each run of them. Queues that may deliver
because of that are noted in `woken`.

A delivery's states:

    ready (in its queue) --deliver--> held under a tag --ack--> settled
      ^                                  |   |  ^ \--reject--> dead-lettered or dropped
      |                                  |   |  |
      |                                  |   +--+ taken out by an uncommitted tx, held again if it
      |                                  |        is rolled back
      +--requeue, recover, channel ends--+

A delivery to a consumer with no-ack is settled when it is delivered, and never held.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, repeat
from operator import itemgetter

from headrace.queues.port import Consumer, Deliveries, Disposition, Queue
from headrace.queues.refusals import Refused
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode

UNACKED_MAX = 200_000
"""Deliveries that the consumers of one channel hold at most, where the client sets no limit: 50 MB.
"""

Held = tuple[Consumer, int, int, float]
"""Consumer, position in its queue, bytes of the body, when it was delivered (monotonic seconds). A
plain tuple: one is made for each delivery."""
Unsent = tuple[Consumer, int, Deliveries]
"""Messages for a consumer that are to be sent, from a tag on."""


class ChannelUnacked:
    """The deliveries of one channel. `port.Subscriber`."""

    __slots__ = (
        "_cancelled", "_lowest", "_send", "_unacked_max", "_unsent", "closed", "held", "limit",
        "next_tag", "number", "parked", "paused", "prefetch", "unacked", "woken",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        unacked_max: int = UNACKED_MAX,
        send: Callable[[list[Unsent]], None] = lambda _: None,
        cancelled: Callable[[Consumer, Refused | None], None] = lambda *_: None,
    ) -> None:
        """`unacked_max`: what its consumers hold at most where the client sets no limit.

        `send` sends deliveries to the client, `cancelled` tells it of a consumer.
        """
        self.number = number
        self._unacked_max = self.limit = unacked_max
        """`limit`: what its consumers together may hold now."""
        self.next_tag = 1
        self.held: dict[int, Held] = {}
        self.prefetch = 0
        """What the client asked for (basic.qos with global); 0: nothing. See `set_prefetch`."""
        self.unacked = 0
        """What counts against it."""
        self.paused = False
        """Its client takes nothing at present. See `resume`."""
        self.parked: dict[Consumer, None] = {}
        self.closed = False
        self.woken: dict[Queue, None] = {}
        """Queues that may deliver because of what the channel did: for `QueueHost.touched`."""
        self._unsent: list[Unsent] = []
        self._send = send
        self._cancelled = cancelled
        self._lowest = 1

    # What queues tell: `port.Subscriber`

    def deliver(self, consumer: Consumer, deliveries: Deliveries, now: float) -> None:
        """Give messages the next tags, and hold them unless their consumer has no-ack."""
        tag, count = self.next_tag, len(deliveries.messages)
        self._unsent.append((consumer, tag, deliveries))
        self.next_tag = tag + count
        if not consumer.no_ack:
            self.hold(consumer, tag, deliveries, now)

    def hold(self, consumer: Consumer, tag: int, deliveries: Deliveries, now: float) -> None:
        """Hold messages under the tags from `tag` on."""
        positions, _, sizes, _, _ = deliveries
        count = len(positions)
        held = zip(repeat(consumer), positions, sizes, repeat(now))
        self.held.update(zip(range(tag, tag + count), held, strict=False))
        consumer.unacked += count
        if consumer.counted:
            self.unacked += count

    def got(self, consumer: Consumer, deliveries: Deliveries, now: float) -> int:
        """Return the tag of the message of a basic.get, and hold it unless it has no-ack."""
        tag = self.next_tag
        self.next_tag = tag + 1
        if not consumer.no_ack:
            self.hold(consumer, tag, deliveries, now)
        return tag

    def send(self) -> None:
        """Send what was delivered. `port.Subscriber`."""
        unsent, self._unsent = self._unsent, []
        self._send(unsent)

    def cancelled(self, consumer: Consumer, refused: Refused | None = None) -> None:
        """Tell the client that a consumer's queue is gone. `port.Subscriber`."""
        self._cancelled(consumer, refused)

    # What the client says

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Settle a delivery, or with `multiple` all up to it, 0 naming all. ChannelClosing."""
        if multiple:
            self.acknowledge(self.take(tag, multiple=True))
            return
        held = self.held.pop(tag, None)
        if held is None:
            raise _unknown(tag)
        consumer, position, _, _ = held
        consumer.queue.settle(Disposition.ACKNOWLEDGED, (position,))
        self._free(consumer, 1)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Put deliveries back to their places, or let them die. ChannelClosing."""
        held = self.take(tag, multiple=multiple)
        self.settle(Disposition.REQUEUED if requeue else Disposition.REJECTED, held)

    def recover(self) -> None:
        """Put all deliveries back to their places (basic.recover with requeue)."""
        self.settle(Disposition.REQUEUED, self.take(0, multiple=True))

    def close(self) -> None:
        """Put all deliveries back; the channel's consumers have been cancelled before."""
        self.closed = True
        self.recover()
        self.parked.clear()

    # Steps, for what a transaction does later

    def take(self, tag: int, *, multiple: bool) -> list[Held]:
        """Take deliveries out, in their order, to be told of below. ChannelClosing, then nothing.

        ChannelClosing: 406, there is no such tag. 0 with `multiple` names all, if any.
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
        """Hold again, under their tags, what was taken out (a transaction is rolled back)."""
        held = dict(sorted([*self.held.items(), *taken]))
        self.held.clear()
        self.held.update(held)
        self._lowest = min(held, default=self.next_tag)

    def acknowledge(self, taken: Iterable[Held]) -> None:
        """Acknowledge what `take` gave."""
        for consumer, held in _runs(taken):
            positions = list(map(itemgetter(1), held))
            consumer.queue.settle(Disposition.ACKNOWLEDGED, positions)
            self._free(consumer, len(held))

    def settle(self, disposition: Disposition, taken: Iterable[Held]) -> None:
        """Requeue or reject the deliveries that `take` returned, and note their queues in `woken`.

        A queue delivers requeued messages again, and publishes dead letters of rejected ones.
        """
        for consumer, held in _runs(taken):
            _, positions, sizes, _ = zip(*held, strict=True)
            consumer.queue.settle(disposition, positions, sizes)
            self.woken[consumer.queue] = None
            self._free(consumer, len(held))

    # Credit

    def set_prefetch(self, prefetch: int) -> None:
        """Set the limit of all consumers together; 0: the broker's own."""
        self.prefetch = prefetch
        self.limit = prefetch or self._unacked_max
        self._unpark_all()

    def pause(self) -> None:
        """Give this channel nothing more until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Give this channel messages again."""
        self.paused = False
        self._unpark_all()

    def park(self, consumer: Consumer) -> None:
        """Note that a consumer was left out for want of credit."""
        consumer.parked = True
        self.parked[consumer] = None

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer that is cancelled. What it holds stays."""
        consumer.parked = False
        self.parked.pop(consumer, None)

    def _free(self, consumer: Consumer, count: int) -> None:
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
        """Return when the oldest delivery is unacknowledged for too long, None: never.

        `timeout_ms`: of queues that do not say; 0: none. Only the oldest is looked at, as in
        RabbitMQ: where its queue has no limit, nor has the channel until it is settled.
        """
        held = self.held.get(self._oldest())
        if held is None:
            return None
        timeout_ms = _timeout_of(held, timeout_ms)
        return held[3] + timeout_ms / 1000 if timeout_ms else None

    def expire(self, now: float, timeout_ms: int = 0) -> None:
        """Raise ChannelClosing, 406, when the oldest delivery's time is up."""
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
        """Return the lowest tag that is held, the next one where there is none."""
        held, lowest, end = self.held, self._lowest, self.next_tag
        if not held:
            lowest = end
        while lowest < end and lowest not in held:
            lowest += 1
        self._lowest = lowest
        return lowest


def _runs(taken: Iterable[Held]) -> Iterator[tuple[Consumer, list[Held]]]:
    """Yield neighbours that are of one consumer."""
    for consumer, held in groupby(taken, itemgetter(0)):
        yield consumer, list(held)


def _timeout_of(held: Held, timeout_ms: int) -> int:
    own = held[0].queue.consumer_timeout_ms
    return timeout_ms if own is None else own


def _unknown(tag: int) -> ChannelClosing:
    return ChannelClosing(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
