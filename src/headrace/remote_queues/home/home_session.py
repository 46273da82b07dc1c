"""A home's session with a leader: calls out, events in, and the queues that they are about."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.queues.port import Subscriber
from headrace.remote_queues.calls import CallsOut
from headrace.remote_queues.events import EventsIn, Poll
from headrace.remote_queues.messages import Call, Event

EVENTS_ROOM_BYTES = 4 * 1024 * 1024
"""Bytes of events that a home accepts with one answer."""
CALLS_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of calls to a leader that a home buffers; above, publishes are refused."""


class SessionQueue(Protocol):
    """A queue on this broker's side of a session. Implemented by `RemoteQueue`."""

    def take(self, event: Event) -> Subscriber | None:
        """Take an event; return the channel that is to `send` once all events are taken."""

    def lost(self) -> None:
        """Note that the session has ended: none of its calls is answered any more."""


class HomeSession:
    """A session with a registration of a leader."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Begin a session. `wake` is called when there are calls to send."""
        self.calls = CallsOut()
        self.ended = False
        self._events = EventsIn()
        self._queues: dict[int, SessionQueue] = {}
        self._next_queue = 0
        self._wake = wake

    # Calls from the session's queues

    def add(self, queue: SessionQueue) -> int:
        """Return a number for a queue; its events are passed to it until `remove`."""
        self._next_queue += 1
        self._queues[self._next_queue] = queue
        return self._next_queue

    def remove(self, number: int) -> None:
        """Drop the later events of a queue."""
        self._queues.pop(number, None)

    @property
    def is_full(self) -> bool:
        """Whether the leader has too many calls to take to be sent further publishes."""
        return self.calls.size >= CALLS_BYTES_MAX

    def call(self, call: Call) -> int:
        """Send a call soon; return its number."""
        number = self.calls.add(call)
        self._wake()
        return number

    # Calls from the transport

    def take_calls(self) -> tuple[int, Sequence[Call]] | None:
        """Return the next request of calls; None: nothing is to be sent now."""
        return None if self.ended else self.calls.take()

    def calls_answered(self, below: int) -> None:
        """Note an answer: the leader has taken the calls below a number."""
        self.calls.answered(below)

    def poll(self) -> Poll:
        """Return the next request for events."""
        return self._events.poll(EVENTS_ROOM_BYTES)

    def polled(self, first: int, events: Sequence[Event]) -> None:
        """Take the events of an answer; `first` is the number of the first one."""
        if self.ended:
            return
        served: dict[Subscriber, None] = {}
        for event in self._events.take(first, events):
            queue = self._queues.get(event.queue)
            channel = None if queue is None else queue.take(event)
            if channel is not None:
                served[channel] = None
        for channel in served:
            channel.send()

    def connection_lost(self) -> None:
        """Send again what was not answered: a connection was lost, a new one begins."""
        self.calls.lost()
        self._events.lost()

    def end(self) -> None:
        """End the session, once: the leader has ended it, or its registration has ended."""
        if self.ended:
            return
        self.ended = True
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            queue.lost()
