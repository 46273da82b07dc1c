"""`AskLeader`: requests to the broker that leads a partition, local or remote, with retries.

    ask() ──► leader now ─┬─ this broker ──► local() ──┐
                ▲         ├─ another ──────► remote() ─┼─► answer ─┬─ final ──────────────► done()
                │         └─ none ─────────────────────┘           │
                └── backoff ◄── code in `Retry.codes`, before the deadline

The leader is looked up for each attempt, as it may have changed. A question may be carried out
twice, so it must be idempotent. If the last attempt ends with NETWORK_EXCEPTION (a lost answer),
the result is COORDINATOR_NOT_AVAILABLE, which clients know.
"""

from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, TypeVar

from headrace.broker.metadata_image import NO_LEADER, MetadataImage
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.backoff import backoff_seconds
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer

Q = TypeVar("Q")
A = TypeVar("A")

LEADER_CHANGES = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors that end once the partition has its next leader and that one has loaded it."""


class Retry(NamedTuple):
    """The errors that are retried, for how long, and the backoff."""

    codes: Collection[ErrorCode] = ()
    seconds: float = 0.0
    """Seconds from the first attempt in which further attempts begin."""
    backoff_min: float = 0.05
    """Seconds before the second attempt; doubled before each later one."""
    backoff_max: float = 1.0


ONCE = Retry()


class _Asked(Generic[Q, A]):
    """A question without a final answer, with its callback and deadline."""

    __slots__ = ("done", "failures", "question", "timer", "until")

    def __init__(self, question: Q, done: Done[A | ApiError], until: float) -> None:
        self.question = question
        self.done = done
        self.until = until
        self.failures = 0
        self.timer: Timer | None = None


class AskLeader(Generic[Q, A]):
    """Questions of one kind to the leaders of partitions. On the deciding thread."""

    def __init__(
        self,
        own: BrokerId,
        leader_of: Callable[[Q], BrokerId],
        local: Callable[[Q, Done[A | ApiError]], None],
        remote: Callable[[BrokerId, Q, Done[A | ApiError]], None],
        clock: Clock,
        retry: Retry = ONCE,
    ) -> None:
        """Create without questions. `leader_of` returns the broker to ask, or NO_LEADER.

        `local` is called if that is broker `own`, else `remote`. Each calls its `done` once, at
        once or later.
        """
        self._own = own
        self._leader_of = leader_of
        self._local = local
        self._remote = remote
        self._clock = clock
        self._retry = retry
        self._asked: dict[_Asked[Q, A], None] = {}

    def ask(self, question: Q, done: Done[A | ApiError]) -> None:
        """Ask the leader; `done` is called once, at once or later, with the final answer."""
        asked: _Asked[Q, A] = _Asked(question, done, self._clock.monotonic() + self._retry.seconds)
        self._asked[asked] = None
        self._attempt(asked)

    def close(self, error: ApiError) -> None:
        """Cancel all retries; each question without an answer ends with `error`."""
        left, self._asked = self._asked, {}
        for asked in left:
            if asked.timer is not None:
                asked.timer.cancel()
            asked.done(error)

    def _attempt(self, asked: _Asked[Q, A]) -> None:
        asked.timer = None

        def answered(answer: A | ApiError) -> None:
            self._answered(asked, answer)

        leader = self._leader_of(asked.question)
        if leader == self._own:
            self._local(asked.question, answered)
        elif leader == NO_LEADER:
            answered(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker leads the partition"))
        else:
            self._remote(leader, asked.question, answered)

    def _answered(self, asked: _Asked[Q, A], answer: A | ApiError) -> None:
        if asked not in self._asked:
            return  # closed in the meantime
        retry = self._retry
        if isinstance(answer, ApiError) and answer.code in retry.codes:
            seconds = backoff_seconds(asked.failures + 1, retry.backoff_min, retry.backoff_max)
            if self._clock.monotonic() + seconds < asked.until:
                asked.failures += 1
                asked.timer = self._clock.call_later(seconds, lambda: self._attempt(asked))
                return
        del self._asked[asked]
        if isinstance(answer, ApiError) and answer.code is ErrorCode.NETWORK_EXCEPTION:
            answer = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, answer.message)
        asked.done(answer)


def by_leader(
    image: MetadataImage, partitions: Collection[TopicPartition]
) -> dict[BrokerId, list[TopicPartition]]:
    """Return the partitions grouped by their present leader; key NO_LEADER: without a leader."""
    found: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        found.setdefault(image.leader_of(partition), []).append(partition)
    return found
