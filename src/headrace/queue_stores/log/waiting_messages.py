"""Messages published before their queue's log exists, and the publishes that wait for them.

Messages are numbered in the order of their publishes, from 0, whether or not the log gets them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.queue_stores.log.log_writing import OpenLog
from headrace.queue_stores.message_store import StoredDone
from headrace.queue_stores.queue_settings import Published


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
