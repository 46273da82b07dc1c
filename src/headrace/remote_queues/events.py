"""The events of a session: numbered by the leader, polled by the home, taken once and in order.

A poll names the first event that the home has not received; those below it are forgotten. The
leader sends each event once, unless a poll has `again`: the home lost a connection, or received an
answer that does not follow the one before.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from headrace.remote_queues.messages import Event, size_of

EVENTS_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of events that a home has not received, above which nothing is delivered to it."""


class Poll(NamedTuple):
    """A home's request for events."""

    expected: int
    """Number of the first event that the home has not received."""
    again: bool
    """Whether to send again all events from `expected` on."""
    room: int
    """Bytes of events that the home has room for; at least one event is sent."""


class EventsOut:
    """The events of a session that its home has not received."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of these events."""
        self._events: deque[tuple[Event, int]] = deque()
        self._first = 0
        self._sent = 0
        """Number of the first event that is not sent."""

    @property
    def is_full(self) -> bool:
        """Whether no further messages are to be delivered before the home has received some."""
        return self.size >= EVENTS_BYTES_MAX

    @property
    def unsent(self) -> bool:
        """Whether there are events that are not sent."""
        return self._sent < self._first + len(self._events)

    def add(self, event: Event) -> None:
        """Append an event."""
        size = size_of(event)
        self.size += size
        self._events.append((event, size))

    def received(self, below: int) -> None:
        """Forget the events below a number."""
        while self._events and self._first < below:
            self.size -= self._events.popleft()[1]
            self._first += 1
        self._sent = max(self._sent, self._first)

    def rewind(self) -> None:
        """Send all events that the home has not received again."""
        self._sent = self._first

    def take(self, room: int) -> tuple[int, list[Event]]:
        """Return the number of the next event, and events of `room` bytes, at least one if any."""
        taken: list[Event] = []
        for event, size in islice(self._events, self._sent - self._first, None):
            if taken and size > room:
                break
            room -= size
            taken.append(event)
        first, self._sent = self._sent, self._sent + len(taken)
        return first, taken


class EventsIn:
    """The events of a session at its home."""

    def __init__(self) -> None:
        self._expected = 0
        self._again = False

    def poll(self, room: int) -> Poll:
        """Return the next request for events."""
        again, self._again = self._again, False
        return Poll(self._expected, again, room)

    def take(self, first: int, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of an answer that were not received before, in order."""
        skipped = self._expected - first
        if skipped < 0:
            self._again = True
            return ()
        taken = events[skipped:]
        self._expected += len(taken)
        return taken

    def lost(self) -> None:
        """Ask for unreceived events again: the connection was lost."""
        self._again = True
