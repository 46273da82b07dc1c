"""A session of another broker with this one, which leads the queues that it is about."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.port import ALL_UNSTORED, Consumer, Disposition, Getter, Got, QueueInfo
from headrace.queues.refusals import Refused
from headrace.remote_queues.calls import CallsIn
from headrace.remote_queues.events import EventsOut, Poll
from headrace.remote_queues.held_positions import HeldPositions
from headrace.remote_queues.leader_answers import got_message, not_led
from headrace.remote_queues.leader_publishes import published_to
from headrace.remote_queues.messages import (
    Call,
    Cancel,
    Consume,
    Consuming,
    Counted,
    Credit,
    Event,
    Get,
    Hold,
    Info,
    Open,
    Publish,
    Purge,
    PurgeEnded,
    Settle,
    Stored,
)
from headrace.remote_queues.remote_channel import RemoteChannel

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.engine.delivery_turns import AnyQueue

PollDone = Callable[[int, list[Event]], None]
"""Takes the number of the first event of an answer, and the events."""


HOLD_SECONDS = 0.01
"""Seconds between two looks whether held messages are read from the disk."""


class LedQueue(NamedTuple):
    """A queue that a home has opened, with its consumers by the home's numbers."""

    host: QueueHost
    queue: "AnyQueue"
    channels: dict[int, RemoteChannel]


class _Request(NamedTuple):
    """Calls that are not carried out yet, and the callback for the answer."""

    calls: deque[Call]
    done: Done[int | None]


class _Holding(NamedTuple):
    """Positions of a former leader that are being taken: later calls of the session wait."""

    led: LedQueue
    channel: RemoteChannel
    positions: HeldPositions


class LeaderSession:
    """A session with a registration of a home. Called on the deciding thread."""

    def __init__(
        self, hosts: Mapping[str, QueueHost], clock: Clock, soon: Callable[[], None]
    ) -> None:
        """Begin a session.

        `hosts`: the vhosts of this broker; `soon` has due queues deliver in the loop's next turn.
        """
        self.ended = False
        self._calls = CallsIn()
        self._carried_out = 0
        """Number of calls carried out: others of `_requests` wait."""
        self._requests: deque[_Request] = deque()
        self._holding: _Holding | None = None
        self._events = EventsOut()
        self._hosts = hosts
        self._clock = clock
        self._soon = soon
        self._queues: dict[int, LedQueue] = {}
        self._polls: deque[tuple[Poll, PollDone]] = deque()
        self._parked: dict[RemoteChannel, None] = {}

    # Requests of the home

    def take(self, first: int, calls: Sequence[Call], done: Done[int | None]) -> None:
        """Carry out the calls that are new; then call `done` with the number of the next one.

        None: the session has ended before.
        """
        self._requests.append(_Request(deque(self._calls.take(first, calls)), done))
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out calls, unless positions of a former leader are being taken."""
        requests = self._requests
        while requests and self._holding is None:
            calls, done = requests[0]
            while calls and self._holding is None:
                call = calls.popleft()
                self._carried_out += 1
                _HANDLERS[type(call)](self, call)
            if self._holding is None:
                requests.popleft()
                done(self._carried_out)
        self.send()
        self._soon()

    def poll(self, poll: Poll, done: PollDone) -> None:
        """Call `done` with the next events, at once or when there are some."""
        events, was_full = self._events, self._events.is_full
        events.received(poll.expected)
        if poll.again:
            events.rewind()
        self._polls.append((poll, done))
        self.send()
        if was_full and not events.is_full:
            self._wake_parked()

    def answer_polls(self) -> bool:
        """Answer all waiting polls, without events; return whether there were any."""
        polls, self._polls = self._polls, deque()
        for poll, done in polls:
            done(*self._events.take(poll.room))
        return bool(polls)

    # Calls from the remote channels: `Sending`

    @property
    def is_full(self) -> bool:
        """Whether the home has too many events to receive."""
        return self._events.is_full

    def add(self, event: Event) -> None:
        """Append an event, sent by the next `send`."""
        if not self.ended:
            self._events.add(event)

    def send(self) -> None:
        """Answer waiting polls with the events that are not sent."""
        events, polls = self._events, self._polls
        while polls and events.unsent:
            poll, done = polls.popleft()
            done(*events.take(poll.room))

    def parked(self, channel: RemoteChannel) -> None:
        """Note a channel without credit, to be woken once `is_full` has ended."""
        self._parked[channel] = None

    def _wake_parked(self) -> None:
        parked, self._parked = self._parked, {}
        for channel in parked:
            if channel.wake():
                self._touch(channel)
        self._soon()

    def _touch(self, channel: RemoteChannel) -> None:
        consumer = channel.consumer
        if consumer is not None:
            for led in self._queues.values():
                if led.queue is consumer.queue:
                    led.host.touched((led.queue,))

    # Calls

    def _open(self, call: Open) -> None:
        host = self._hosts.get(call.vhost)
        queue = None if host is None else host.queues.get(call.name)
        if host is not None and queue is not None:
            self._queues[call.queue] = LedQueue(host, queue, {})

    def _publish(self, call: Publish) -> None:
        led = self._queues.get(call.queue)
        numbers = range(call.first, call.first + len(call.messages))
        if led is None or led.host.queues.get(led.queue.name) is not led.queue:
            self._events.add(Stored(call.queue, call.first, numbers))
            return
        awaited: Awaited = {}
        refused = published_to(led.host, led.queue, call, awaited)

        def stored(unstored: Collection[int]) -> None:
            lost = numbers if unstored is ALL_UNSTORED else refused
            self.add(Stored(call.queue, call.first, lost))
            self.send()

        led.host.when_stored(awaited, stored)

    def _hold(self, call: Hold) -> None:
        led = self._queues.get(call.queue)
        if led is None or not isinstance(led.queue, HostedQueue):
            return  # a stream does not hold deliveries
        channel = led.channels.get(call.consumer)
        if channel is None:
            channel = led.channels[call.consumer] = RemoteChannel(self, call.queue, call.consumer)
        self._holding = _Holding(led, channel, HeldPositions(led.queue, call.positions))
        self._go_on()

    def _go_on(self) -> None:
        """Take held positions as far as they are read; then carry out the calls that waited."""
        if self._holding is None:
            return
        led, channel, positions = self._holding
        if not positions.go_on():
            self._clock.call_later(HOLD_SECONDS, self._look_again)
            return
        self._holding = None
        channel.hold_again(positions.held)
        led.host.touched((led.queue,))

    def _look_again(self) -> None:
        self._go_on()
        self._carry_out()

    def _consume(self, call: Consume) -> None:
        led = self._queues.get(call.queue)

        def done(refused: Refused | None) -> None:
            self.add(Consuming(call.queue, call.consumer, refused))

        if led is None:
            done(not_led())
            return
        channel = led.channels.get(call.consumer)  # of positions that it holds already
        if channel is None:
            channel = RemoteChannel(self, call.queue, call.consumer)
        channel.limit = call.credit
        channel.prefetch = 1 if call.no_ack else 0  # so that it does not deliver beyond its limit
        consumer = channel.consumer = Consumer(
            led.queue,
            channel,
            call.tag,
            no_ack=call.no_ack,
            exclusive=call.exclusive,
            prefetch=call.prefetch if led.queue.is_stream else 0,
            priority=call.wishes.priority,
            wishes=call.wishes,
        )
        consumer.unacked = len(channel.held)
        try:
            led.host.consume(consumer, done)
        except Refused as refused:
            done(refused)
        else:
            led.channels[call.consumer] = channel

    def _cancel(self, call: Cancel) -> None:
        found = self._channel(call.queue, call.consumer)
        if found is not None:
            self._end(*found, call.received)

    def _end(self, led: LedQueue, channel: RemoteChannel, received: int) -> None:
        """Cancel a consumer, and requeue its deliveries but for the first `received` ones."""
        consumer = channel.consumer
        if consumer is not None:
            led.queue.cancel(consumer, self._clock.monotonic())
            self._parked.pop(channel, None)
        # Requeue first: cancelling the last consumer deletes an auto-delete queue.
        self._requeue(led, channel, channel.unreceived(received))
        if consumer is not None:
            led.host.cancel(consumer)

    def _requeue(self, led: LedQueue, channel: RemoteChannel, positions: Sequence[int]) -> None:
        taken, sizes = channel.take(positions)
        if taken:
            ended = Disposition.REQUEUED if channel.closed else Disposition.UNDELIVERED
            led.queue.settle(ended, taken, sizes)
            led.host.touched((led.queue,))

    def _credit(self, call: Credit) -> None:
        found = self._channel(call.queue, call.consumer)
        if found is not None and found[1].raise_credit(call.credit):
            found[0].host.touched((found[0].queue,))

    def _settle(self, call: Settle) -> None:
        found = self._channel(call.queue, call.consumer)
        if found is None:
            return
        led, channel = found
        taken, sizes = channel.take(call.positions)
        if taken:
            led.queue.settle(call.disposition, taken, sizes)
            woken = channel.wake()
            if woken or call.disposition is not Disposition.ACKNOWLEDGED:
                led.host.touched((led.queue,))

    def _get(self, call: Get) -> None:
        led = self._queues.get(call.queue)
        if led is None:
            self._events.add(got_message(call, None, not_led()))
            return
        channel = led.channels.get(call.consumer)
        if channel is None:
            channel = led.channels[call.consumer] = RemoteChannel(self, call.queue, call.consumer)
        consumer = Consumer(led.queue, channel, "", no_ack=call.no_ack, counted=False)

        def given(got: Got | HeadraceError | None) -> None:
            if isinstance(got, HeadraceError):
                self.add(got_message(call, None, got))
            else:
                if got is not None and not call.no_ack:
                    channel.hold(consumer, got.deliveries.positions, got.deliveries.sizes)
                self.add(got_message(call, got, None))
            self.send()

        try:
            led.queue.get(Getter(consumer, given), self._clock.monotonic())
        except Refused as refused:
            given(refused)
        led.host.touched((led.queue,))

    def _purge(self, call: Purge) -> None:
        led = self._queues.get(call.queue)

        def purged(found: int | Refused) -> None:
            settled, refused = (0, found) if isinstance(found, Refused) else (found, None)
            self.add(PurgeEnded(call.queue, call.request, settled, refused))

        if led is None:
            purged(not_led())
            return
        try:
            led.host.purge(led.queue, purged)
        except Refused as refused:
            purged(refused)

    def _info(self, call: Info) -> None:
        led = self._queues.get(call.queue)

        def counted(info: QueueInfo) -> None:
            self.add(Counted(call.queue, call.request, info))
            self.send()

        if led is None:
            counted(QueueInfo(0, 0, 0, 0))
        else:
            led.queue.ask_info(counted)

    def _channel(self, queue: int, key: int) -> tuple[LedQueue, RemoteChannel] | None:
        led = self._queues.get(queue)
        channel = None if led is None else led.channels.get(key)
        return None if led is None or channel is None else (led, channel)

    # Ends

    def _give_up(self) -> None:
        """Requeue positions that were being taken."""
        holding, self._holding = self._holding, None
        if holding is not None:
            holding.positions.end()
            held = holding.positions.held
            holding.led.queue.settle(Disposition.REQUEUED, list(held), list(held.values()))

    def end(self) -> None:
        """Cancel the consumers and requeue all that the home has not settled."""
        self.ended = True
        self._give_up()
        requests, self._requests = self._requests, deque()
        for request in requests:
            request.done(None)
        self.answer_polls()
        queues, self._queues = self._queues, {}
        for led in queues.values():
            for channel in led.channels.values():
                channel.closed = True
                self._end(led, channel, -1)
        self._soon()


_HANDLERS: dict[type, Callable[[LeaderSession, Any], None]] = {
    Open: LeaderSession._open,
    Publish: LeaderSession._publish,
    Consume: LeaderSession._consume,
    Cancel: LeaderSession._cancel,
    Credit: LeaderSession._credit,
    Hold: LeaderSession._hold,
    Settle: LeaderSession._settle,
    Get: LeaderSession._get,
    Purge: LeaderSession._purge,
    Info: LeaderSession._info,
}
