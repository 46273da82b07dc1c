"""What a channel's client has not settled: delivery tags to messages of queues.

Tags count a channel's deliveries, of all its queues. A channel settles by tag; this finds whose
messages those are and tells each queue once for each run of them. Which queues have something to
hand out because of that is noted in `woken`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from headrace.queues.engine.priority_level import MessageLevel
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode

UNACKED_MAX = 200_000
"""Deliveries that the consumers of one channel hold at most, where nobody says: 50 MB."""


class HeldQueue(Protocol):
    """A queue, as a channel that holds messages of it sees it."""

    consumer_timeout_ms: int | None
    """How long a delivery may wait for its acknowledgement; 0: for ever, None: it does not say."""

    def acknowledge(self, level: MessageLevel, positions: Sequence[int]) -> None:
        """Settle messages that are held."""

    def requeue(self, level: MessageLevel, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Put messages that are held, of bodies of `sizes` bytes, back to their places."""

    def reject(self, level: MessageLevel, positions: Sequence[int]) -> None:
        """Let messages that are held die."""

    def unpark(self, holder: "Holder") -> None:
        """Let a consumer take part again that had no credit."""


class Holder(Protocol):
    """To whom a message was given: a consumer, or who asked by basic.get."""

    queue: HeldQueue
    unacked: int
    counted: bool
    """What it holds counts against the channel's prefetch: a basic.get's does not."""
    parked: bool
    """It is left out because it had no credit."""

    def credit(self) -> int:
        """Return how many messages may be given to it."""


Held = tuple[Holder, MessageLevel, int, int, float]
"""Holder, level, position, bytes of the body, when it was given (monotonic seconds). A plain tuple:
one is made for each delivery."""


class ChannelUnacked:
    """The deliveries of one channel."""

    __slots__ = (
        "_lowest", "_unacked_max", "closed", "held", "limit", "next_tag", "number", "parked",
        "paused", "prefetch", "unacked", "woken",
    )  # fmt: skip

    def __init__(self, number: int, unacked_max: int = UNACKED_MAX) -> None:
        """`unacked_max`: what its consumers hold at most where the client sets no limit."""
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
        self.parked: dict[Holder, None] = {}
        self.closed = False
        self.woken: dict[HeldQueue, None] = {}
        """Queues to call `deliver` of; whoever does takes them out."""
        self._lowest = 1

    # What the client says

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        """Settle a delivery, or with `multiple` all up to it, 0 naming all. ChannelClosing."""
        if multiple:
            self.acknowledge(self.take(tag, multiple=True))
            return
        held = self.held.pop(tag, None)
        if held is None:
            raise _unknown(tag)
        holder, level, position, _, _ = held
        holder.queue.acknowledge(level, (position,))
        self._free(holder, 1)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        """Put deliveries back to their places, or let them die. ChannelClosing."""
        held = self.take(tag, multiple=multiple)
        if requeue:
            self.requeue(held)
        else:
            self.reject(held)

    def recover(self) -> None:
        """Put all deliveries back to their places (basic.recover with requeue)."""
        self.requeue(self.take(0, multiple=True))

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
        """Settle what `take` gave."""
        for holder, level, held in _runs(taken):
            holder.queue.acknowledge(level, list(map(itemgetter(2), held)))
            self._free(holder, len(held))

    def requeue(self, taken: Iterable[Held]) -> None:
        """Put what `take` gave back to its place."""
        for holder, level, held in _runs(taken):
            _, _, positions, sizes, _ = zip(*held, strict=True)
            holder.queue.requeue(level, positions, sizes)
            self.woken[holder.queue] = None
            self._free(holder, len(held))

    def reject(self, taken: Iterable[Held]) -> None:
        """Let what `take` gave die."""
        for holder, level, held in _runs(taken):
            holder.queue.reject(level, [position for _, _, position, _, _ in held])
            self._free(holder, len(held))

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

    def park(self, holder: Holder) -> None:
        """Note that a consumer was left out for want of credit."""
        holder.parked = True
        self.parked[holder] = None

    def forget(self, holder: Holder) -> None:
        """Forget a consumer that is cancelled. What it holds stays."""
        holder.parked = False
        self.parked.pop(holder, None)

    def _free(self, holder: Holder, count: int) -> None:
        holder.unacked -= count
        if holder.counted:
            before = self.unacked
            self.unacked = before - count
            if before >= self.limit and self.parked:
                self._unpark_all()
                return
        if holder.parked:
            self._unpark(holder)

    def _unpark_all(self) -> None:
        for holder in tuple(self.parked):
            self._unpark(holder)

    def _unpark(self, holder: Holder) -> None:
        if holder.credit() > 0:
            self.forget(holder)
            holder.queue.unpark(holder)
            self.woken[holder.queue] = None

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
        return held[4] + timeout_ms / 1000 if timeout_ms else None

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


def _runs(taken: Iterable[Held]) -> Iterator[tuple[Holder, MessageLevel, list[Held]]]:
    """Yield neighbours that are of one holder and one level."""
    for (holder, level), held in groupby(taken, itemgetter(0, 1)):
        yield holder, level, list(held)


def _timeout_of(held: Held, timeout_ms: int) -> int:
    own = held[0].queue.consumer_timeout_ms
    return timeout_ms if own is None else own


def _unknown(tag: int) -> ChannelClosing:
    return ChannelClosing(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
