"""A home's publishes to one queue of another broker: numbered, and undecided until `Stored`."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from headrace.queues.port import ALL_STORED, UnstoredDone
from headrace.queues.queue_settings import Published
from headrace.remote_queues.home_session import HomeSession
from headrace.remote_queues.messages import CALL_BYTES, Publish

MESSAGES_MAX = 1000
"""Messages of one publish call at most."""


class _Waiting(NamedTuple):
    """A `when_stored` about the messages up to a number."""

    last: int
    unstored: set[int]
    done: UnstoredDone


class RemotePublishes:
    """The publishes to one queue, over all sessions."""

    def __init__(self) -> None:
        self.last = 0
        """Number of the message published last, from 1."""
        self._call: tuple[Publish, int] | None = None
        """The publish call that may be extended, and its number."""
        self._undecided: dict[int, int] = {}
        """First and last number of each publish call that is not answered."""
        self._waiting: deque[_Waiting] = deque()

    def add(self, session: HomeSession, queue: int, published: Published) -> None:
        """Send a message with the present publish call, or with a new one."""
        self.last += 1
        message, call = published.message, self._extensible(session, published)
        if call is None:
            call = Publish(queue, self.last, published.over_length, [message])
            self._call = call, session.call(call)
        else:
            call.messages.append(message)
            session.calls.grow(CALL_BYTES + len(message.body) + len(message.header))
        self._undecided[call.first] = self.last

    def _extensible(self, session: HomeSession, published: Published) -> Publish | None:
        if self._call is None:
            return None
        call, number = self._call
        fits = len(call.messages) < MESSAGES_MAX
        same = call.over_length == published.over_length
        return call if fits and same and session.calls.may_grow(number) else None

    def close_call(self) -> None:
        """Leave the present call as it is: another call of the queue follows it."""
        self._call = None

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the numbers of unstored messages, once all so far are decided."""
        self._waiting.append(_Waiting(self.last, set(), done))
        self._tell()

    def stored(self, first: int, unstored: Sequence[int]) -> None:
        """Note that the messages of a call are stored, but for some numbers."""
        for waiting in self._waiting:
            waiting.unstored.update(unstored)
        self._undecided.pop(first, None)
        self._tell()

    def lost(self) -> None:
        """Report all undecided messages as unstored: the session has ended."""
        self._call = None
        undecided, self._undecided = self._undecided, {}
        for first, last in undecided.items():
            for waiting in self._waiting:
                waiting.unstored.update(range(first, last + 1))
        self._tell()

    def _tell(self) -> None:
        first = next(iter(self._undecided), self.last + 1)
        waiting = self._waiting
        while waiting and waiting[0].last < first:
            _, unstored, done = waiting.popleft()
            done(unstored or ALL_STORED)
