"""The calls of a session: numbered and sent by the home, taken once and in order by the leader.

    add()                take()                     answered(below)
    ------> NOT SENT -----------------> SENT --------------------> forgotten
                ^                         |
                +------- lost() ----------+

The leader's `expected` is the number of the next call; it skips calls below it, and takes none of
a request that begins above it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from headrace.remote_queues.messages import Call, size_of

REQUESTS_MAX = 5
"""Requests of calls in flight at most."""
REQUEST_BYTES_MAX = 1024 * 1024
"""Bytes of calls after which a request ends."""


class CallsOut:
    """The calls of a home that its leader has not taken, and which of them are sent."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of calls that are not answered."""
        self._calls: deque[Call] = deque()
        self._sizes: deque[int] = deque()
        """Their bytes."""
        self._first = 0
        """Number of the first call that is not answered."""
        self._sent = 0
        """Number of the first call that is not sent."""
        self._sealed = 0
        """Number of the first call that was never sent: those below are not changed any more."""
        self._in_flight = 0

    @property
    def idle(self) -> bool:
        """Whether all calls are answered."""
        return not self._calls

    def add(self, call: Call) -> int:
        """Append a call; return its number. It may be extended while it `may_grow`."""
        size = size_of(call)
        self._calls.append(call)
        self._sizes.append(size)
        self.size += size
        return self._first + len(self._calls) - 1

    def grow(self, number: int, size: int) -> None:
        """Count the bytes by which a call was extended that `may_grow`."""
        self._sizes[number - self._first] += size
        self.size += size

    def may_grow(self, number: int) -> bool:
        """Tell whether the call of a number may be extended: the leader cannot have it yet."""
        return number >= self._sealed

    def last_growing(self) -> tuple[int, Call] | None:
        """Return the call added last, with its number; None: it was sent."""
        number = self._first + len(self._calls) - 1
        return (number, self._calls[-1]) if self.may_grow(number) else None

    def take(self) -> tuple[int, Sequence[Call]] | None:
        """Return the next request, the number of its first call and its calls; None: not now."""
        begin = self._sent - self._first
        if self._in_flight >= REQUESTS_MAX or begin >= len(self._calls):
            return None
        taken: list[Call] = []
        size = 0
        for call, bytes_of_call in islice(zip(self._calls, self._sizes, strict=True), begin, None):
            if size >= REQUEST_BYTES_MAX:
                break
            size += bytes_of_call
            taken.append(call)
        first, self._sent = self._sent, self._sent + len(taken)
        self._sealed = max(self._sealed, self._sent)
        self._in_flight += 1
        return first, taken

    def answered(self, below: int) -> None:
        """Forget the calls below a number, which the leader has taken; one request is answered."""
        while self._calls and self._first < below:
            self._calls.popleft()
            self.size -= self._sizes.popleft()
            self._first += 1
        self._sent = max(self._sent, self._first)
        self._in_flight = max(self._in_flight - 1, 0)
        if not self._in_flight:
            # The leader takes no request that overtakes an earlier one: such calls are sent again.
            self._sent = self._first

    def unanswered(self) -> Iterable[Call]:
        """Return the calls that the leader is not known to have taken, in order."""
        return iter(self._calls)

    def lost(self) -> None:
        """Send all unanswered calls again: the connection was lost."""
        self._sent = self._first
        self._in_flight = 0


class CallsIn:
    """The calls of a session at its leader."""

    def __init__(self) -> None:
        self.expected = 0
        """Number of the next call."""

    def take(self, first: int, calls: Sequence[Call]) -> Sequence[Call]:
        """Return the calls of a request that were not taken before, from number `first` on."""
        skipped = self.expected - first
        if skipped < 0:
            return ()
        taken = calls[skipped:]
        self.expected += len(taken)
        return taken
