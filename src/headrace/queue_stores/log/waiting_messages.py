"""Messages published before their queue's log exists, and the publishes that wait for them.

Messages are numbered in the order of their publishes, from 0, whether or not the log gets them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log.held_batches import CROWDED_BYTES, WAITING_BYTES_MAX
from headrace.queue_stores.log.open_log import OpenLog
from headrace.queue_stores.log.queue_logs import Crowded
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import StoredDone
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import record_bytes


class WaitingMessage(NamedTuple):
    """A message published before its queue's log is open, to be appended then."""

    published: Published
    expires_at: float | None
    since: float
    """Monotonic seconds at which it was published, if it expires; else 0."""

    def append_to(self, log: OpenLog, now: float) -> ApiError | None:
        """Append the message; return the log's refusal if it is too large. Raises HeadraceError."""
        expires_at = self.expires_at
        if expires_at is not None and expires_at > self.since:
            # A message's lifetime does not pass while the log is created.
            expires_at += now - self.since
        try:
            log.append(self.published, expires_at)
        except ApiError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
            return error
        return None


class WaitingMessages:
    """The messages of a store that wait. Implements `log_writing.Crowded`.

    Those of `messages` wait for the log; others wait in the log for in-sync replicas (`held`).
    """

    def __init__(self, memory: MemoryUse, crowded: list[Crowded]) -> None:
        """Begin empty.

        `memory` counts the bytes. `crowded`: this is added to it when too much waits.
        """
        self.messages: list[WaitingMessage] = []
        self.count = 0
        """Number of messages that have waited for the log so far."""
        self.held_up: list[Callable[[], None]] = []
        self._bytes = 0
        """Bytes that wait for the log."""
        self._held_bytes = 0
        """Bytes that wait in the log."""
        self._memory = memory
        self._crowded = crowded

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that publishers are paused."""
        return self._bytes + self._held_bytes > CROWDED_BYTES

    def add(self, published: Published, expires_at: float | None, now: float) -> None:
        """Have a message wait for the log. HeadraceError: too many wait already."""
        size = record_bytes(published.message)
        if self._bytes + size > WAITING_BYTES_MAX:
            raise HeadraceError(
                f"the queue's log is not open yet, and {WAITING_BYTES_MAX} bytes of messages"
                " wait for it already: publish again later"
            )
        self.messages.append(WaitingMessage(published, expires_at, now))
        self.count += 1
        self._bytes += size
        self._memory.bytes += size
        self._note_crowded()

    def take(self) -> list[WaitingMessage]:
        """Remove and return the messages that wait for the log."""
        messages, self.messages = self.messages, []
        self._memory.bytes -= self._bytes
        self._bytes = 0
        self._go_on()
        return messages

    def held(self, size: int) -> None:
        """Note how many bytes wait in the log now."""
        self._memory.bytes += size - self._held_bytes
        self._held_bytes = size
        self._note_crowded()
        self._go_on()

    def _note_crowded(self) -> None:
        if self.is_crowded and self not in self._crowded:
            self._crowded.append(self)

    def _go_on(self) -> None:
        """Resume paused publishers unless too much waits still."""
        if self.held_up and not self.is_crowded:
            held_up, self.held_up = self.held_up, []
            for go_on in held_up:
                go_on()


def complete(
    awaited: Iterable[tuple[int, StoredDone]], first: int, refused: Sequence[int]
) -> Iterator[tuple[StoredDone, bool]]:
    """Yield each callback, and whether the log accepted all messages of its publishes.

    `awaited`: by the number of messages published until then. `first`: the first number that
    waited. `refused`: numbers of refused messages, ascending. Callbacks with the same number have
    the same messages.
    """
    begin = end = first
    for count, done in awaited:
        if count > end:
            begin, end = end, count
        yield done, bisect_left(refused, begin) == bisect_left(refused, end)
