"""A session of another broker with this one, which leads the queues that it is about."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.queue_host import QueueHost
from headrace.remote_queues.calls import CallsIn
from headrace.remote_queues.events import EventsOut, Poll
from headrace.remote_queues.leader.leader_answers import refusal_of
from headrace.remote_queues.leader.led_queue import LedQueue
from headrace.remote_queues.leader.remote_channel import RemoteChannel
from headrace.remote_queues.messages import (
    Attached,
    Call,
    Cancel,
    CloseIfEmpty,
    Consume,
    Credit,
    Event,
    Get,
    Hold,
    Info,
    Leave,
    Moved,
    Open,
    Publish,
    Purge,
    Recall,
    Reopen,
    Reply,
    Settle,
    Stored,
)

if TYPE_CHECKING:
    from headrace.remote_queues.leader.held_positions import HeldPositions
    from headrace.wire.amqp.content import Message

DeliverReply = Callable[["Message", bool], bool]
"""Delivers a direct reply to a channel of this broker, or only asks for it, if the second argument
is True; returns whether there is such a channel."""
PollDone = Callable[[int, list[Event]], None]
"""Takes the number of the first event of an answer, and the events."""
QueueName = tuple[str, str]
"""The names of a vhost and of a queue in it."""


HOLD_SECONDS = 0.01
"""Seconds between two looks whether held messages are read from the disk."""


class _Request(NamedTuple):
    """Calls that are not carried out yet, and the callback for the answer."""

    calls: deque[Call]
    done: Done[int | None]


class LeaderSession:
    """A session with a registration of a home. Called on the deciding thread."""

    def __init__(
        self,
        hosts: Mapping[str, QueueHost],
        clock: Clock,
        soon: Callable[[], None],
        attached: Callable[[QueueName], None],
        deliver_reply: DeliverReply,
    ) -> None:
        """Begin a session.

        `hosts`: the vhosts of this broker; `soon` has due queues deliver in the loop's next turn.
        `attached` is called when the home has named all that it holds of a queue.
        """
        self.ended = False
        self._calls = CallsIn()
        self._carried_out = 0
        """Number of calls carried out: others of `_requests` wait."""
        self._requests: deque[_Request] = deque()
        self._holding: HeldPositions | None = None
        """Positions of a former leader that are being taken: later calls of the session wait."""
        self._events = EventsOut()
        self._hosts = hosts
        self._clock = clock
        self._soon = soon
        self._attached = attached
        self._deliver_reply = deliver_reply
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
                self._call(call)
            if self._holding is None:
                requests.popleft()
                done(self._carried_out)
        self.send()
        self._soon()

    def _call(self, call: Call) -> None:
        """Carry out a call; one on a queue that is not led here is refused."""
        if isinstance(call, Open):
            self._open(call)
            return
        if isinstance(call, Reply):
            self._reply(call)
            return
        led = self._queues.get(call.queue)
        if led is not None:
            _HANDLERS[type(call)](self, led, call)
            return
        refusal = refusal_of(call)
        if refusal is not None:
            self._events.add(refusal)

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

    # Calls from led queues and remote channels: `Sending`

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

    def forget(self, channel: RemoteChannel) -> None:
        """Note that a channel's consumer is cancelled."""
        self._parked.pop(channel, None)

    def _wake_parked(self) -> None:
        parked, self._parked = self._parked, {}
        for channel in parked:
            if channel.wake():
                channel.touch()
        self._soon()

    # Queues

    def _open(self, call: Open) -> None:
        host = self._hosts.get(call.vhost)
        queue = None if host is None else host.queues.get(call.name)
        moved = isinstance(queue, ClosedQueue) and queue.led_elsewhere
        if host is None or queue is None or moved:
            self._events.add(Moved(call.queue))
        else:
            # The home has left it, as it has seen a later leader epoch of this broker.
            for number in self._numbers_of((call.vhost, call.name)):
                self._queues.pop(number).leave()
            self._queues[call.queue] = LedQueue(self, call.queue, host, queue, self._clock)

    def _reply(self, call: Reply) -> None:
        """Deliver a direct reply; report whether there is such a channel."""
        (message,) = call.messages
        found = self._deliver_reply(message, call.asks)
        self._events.add(Stored(call.queue, call.first, () if found else (call.first,)))

    def has_attached(self, name: QueueName) -> bool:
        """Tell whether the home has named all that it holds of a queue that is led here now."""
        return any(
            led.attached and led.is_present and (led.host.name, led.queue.name) == name
            for led in self._queues.values()
        )

    def has_opened(self, name: QueueName) -> bool:
        """Tell whether the home has opened a queue."""
        return any((led.host.name, led.queue.name) == name for led in self._queues.values())

    def moved(self, name: QueueName) -> None:
        """Report that a queue is not led here any more; its deliveries are requeued."""
        for number in self._numbers_of(name):
            led = self._queues.pop(number)
            if self._holding is not None and self._holding.queue is led.queue:
                self._give_up()
            led.end()
            self.add(Moved(number))
        self._carry_out()

    def _numbers_of(self, name: QueueName) -> list[int]:
        """Return the numbers by which the home has opened a queue."""
        queues = self._queues.items()
        return [number for number, led in queues if (led.host.name, led.queue.name) == name]

    def _left(self, led: LedQueue, call: Leave) -> None:
        """Forget a queue that the home does not use."""
        del self._queues[call.queue]
        led.end()

    def _attach(self, led: LedQueue) -> None:
        led.attached = True
        self._attached((led.host.name, led.queue.name))

    # Positions of a former leader

    def _hold(self, led: LedQueue, call: Hold) -> None:
        self._holding = led.hold(call)
        self._go_on()

    def _go_on(self) -> None:
        """Take held positions as far as they are read; then carry out the calls that waited."""
        holding = self._holding
        if holding is None:
            return
        if not holding.go_on():
            self._clock.call_later(HOLD_SECONDS, self._look_again)
            return
        self._holding = None
        holding.channel.hold_again(holding.held)
        holding.channel.touch()

    def _look_again(self) -> None:
        self._go_on()
        self._carry_out()

    def _give_up(self) -> None:
        """Requeue positions that were being taken."""
        holding, self._holding = self._holding, None
        if holding is not None:
            holding.give_up()

    # Ends

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
            led.end()
        self._soon()


_HANDLERS: dict[type, Callable[[LeaderSession, LedQueue, Any], None]] = {
    Publish: lambda _, led, call: led.publish(call),
    Consume: lambda _, led, call: led.consume(call),
    Cancel: lambda _, led, call: led.cancel(call),
    Credit: lambda _, led, call: led.credit(call),
    Recall: lambda _, led, call: led.recall(call),
    Hold: LeaderSession._hold,
    Settle: lambda _, led, call: led.settle(call),
    Attached: lambda session, led, _: session._attach(led),
    Get: lambda _, led, call: led.get(call),
    Purge: lambda _, led, call: led.purge(call),
    Info: lambda _, led, call: led.info(call),
    CloseIfEmpty: lambda _, led, call: led.close_if_empty(call),
    Reopen: lambda _, led, __: led.reopen(),
    Leave: LeaderSession._left,
}
