"""The ISR changes of all partitions led here: AlterPartition requests, and lagging replicas.

A leader decides (`broker.replica.in_sync_replicas`) and keeps each requested change until its
outcome is known. This module sends the changes of all partitions to the controller together, one
call at a time, since the controller applies them in that order. A change without an answer is sent
again, later each time.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import IsrChange
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.model.errors import ErrorCode, HeadraceError
from headrace.model.nouns import TopicPartition, counted
from headrace.ports.backoff import backoff_seconds
from headrace.ports.clock import Clock, Timer
from headrace.replication.controller_calls import AskedIsr, ControllerCalls, IsrAnswer

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 5.0
FAILURES_EXPECTED = 6
"""Requests without an answer in a row that a restart of the controller explains: about 3 s."""
REFUSED_SECONDS = 1.0
"""Seconds that a refused change is not requested again, although each fetch suggests it."""
_REFUSED = frozenset(
    (
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_REQUEST,
    )
)
"""Errors after which nothing was written."""
_CAUSES = {
    ErrorCode.INELIGIBLE_REPLICA: "one of them is stopping, has just been registered anew or is in"
    " doubt; it is asked again until it may join",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "another change of the same request stood in the way; it is"
    " asked again",
    ErrorCode.INVALID_REQUEST: "the controller takes it for no ISR of this partition; see its log",
}
_OVER = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors that mean that newer orders of the controller are on their way.

If they do not come, the change is requested again by the next check for lagging replicas.
"""


class _Asked(NamedTuple):
    """A partition's change that is being requested."""

    partition: Partition
    term: LeaderTerm
    change: IsrChange


class IsrKeeper:
    """The ISR requests of one broker. For the deciding thread."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[Partition]],
        calls: ControllerCalls,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        lag_seconds_max: Callable[[], float],
    ) -> None:
        """Make an ISR keeper; `partitions` returns all local ones, `spawn` starts a call as a task.

        `lag_seconds_max` returns `replica.lag.time.max.ms` in seconds.
        """
        self._partitions = partitions
        self._calls = calls
        self._clock = clock
        self._spawn = spawn
        self._lag_seconds_max = lag_seconds_max
        self._wanted: dict[Partition, None] = {}
        """Partitions whose pending change is to be requested."""
        self._not_before: dict[Partition, float] = {}
        """Earliest time of a partition's next request, after one without success."""
        self._said: dict[Partition, ErrorCode] = {}
        """The refusal of a partition's ISR that was last logged."""
        self._failures = 0
        """Number of calls without an answer in a row."""
        self._asking = False
        self._closed = False
        self._next: Timer | None = None
        self._next_at = 0.0
        self._check_timer: Timer | None = None
        self.shrinks = 0
        """Number of ISRs made smaller; `expands`: made larger."""
        self.expands = 0

    def start(self) -> None:
        """Check for lagging replicas periodically, at half of the allowed lag."""
        self._check_timer = self._clock.call_later(self._lag_seconds_max() / 2, self._check)

    def close(self) -> None:
        """Stop the lag checks, and request no further ISR changes."""
        self._closed = True
        self._wanted.clear()
        for timer in (self._next, self._check_timer):
            if timer is not None:
                timer.cancel()

    def ask(self, partition: Partition) -> None:
        """Request the partition's pending change, together with others of this turn."""
        self._wanted[partition] = None
        self._ask_at(self._not_before.get(partition, 0.0))

    def _check(self) -> None:
        if self._closed:
            return
        now, lag_seconds_max = self._clock.monotonic(), self._lag_seconds_max()
        for partition in self._partitions():
            term = partition.role.term
            if term is not None and (
                term.pending is not None or term.shrink(now, lag_seconds_max) is not None
            ):
                self._wanted[partition] = None
        self._not_before = {
            partition: until for partition, until in self._not_before.items() if until > now
        }
        self._said = {
            partition: why for partition, why in self._said.items() if partition.role.term
        }
        self._schedule()
        self.start()

    # --- asking ---------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Schedule the next request, once one of the wanted changes may be requested."""
        if self._wanted:
            self._ask_at(min(self._not_before.get(partition, 0.0) for partition in self._wanted))

    def _ask_at(self, at: float) -> None:
        """Request at time `at`, or after this turn; after the end of a running call."""
        if self._asking or self._closed:
            return
        if self._next is not None:
            if self._next_at <= at:
                return
            self._next.cancel()
        self._next_at = at
        self._next = self._clock.call_later(max(at - self._clock.monotonic(), 0.0), self._ask)

    def _ask(self) -> None:
        self._next = None
        if self._asking or self._closed:
            return
        now = self._clock.monotonic()
        asked: list[_Asked] = []
        for partition in list(self._wanted):
            term = partition.role.term
            if term is None or term.pending is None:
                del self._wanted[partition]
            elif self._not_before.get(partition, 0.0) <= now:
                del self._wanted[partition]
                asked.append(_Asked(partition, term, term.pending))
        if asked:
            self._asking = True
            self._spawn(self._call(asked))
        else:
            self._schedule()

    async def _call(self, asked: list[_Asked]) -> None:
        answers: Mapping[TopicPartition, IsrAnswer | ErrorCode] = {}
        try:
            answers = await self._calls.alter_partitions([_wire(*each) for each in asked])
        except HeadraceError as error:
            level = logging.WARNING if self._failures >= FAILURES_EXPECTED else logging.INFO
            _logger.log(
                level, "the controller has not answered AlterPartition for %s: %s; retrying",
                counted(len(asked), "partition"), error,
            )  # fmt: skip
        finally:
            self._asking = False
        if self._closed:
            return
        lost = [each for each in asked if not self._take(each, answers)]
        self._failures = self._failures + 1 if lost else 0
        for partition, term, _ in lost:
            term.isr_answer_lost()
            self._later(
                partition, backoff_seconds(self._failures, RETRY_SECONDS, RETRY_SECONDS_MAX)
            )
            self._wanted[partition] = None
        self._schedule()

    # --- answers --------------------------------------------------------------------------------

    def _take(self, asked: _Asked, answers: Mapping[TopicPartition, IsrAnswer | ErrorCode]) -> bool:
        """Apply the answer for one change; return False if there is no definite answer."""
        partition, term, change = asked
        answer = answers.get(partition.topic_partition)
        if term.ended or term.pending is not change:
            return True  # newer orders have replaced the change
        if isinstance(answer, IsrAnswer):
            return self._committed(partition, term, answer)
        if isinstance(answer, ErrorCode) and answer in _REFUSED:
            self._say_refused(partition, change, answer)
            instead = term.isr_refused()
            self._later(partition, REFUSED_SECONDS)
            if instead is not None:
                self._wanted[partition] = None
            return True
        if answer in _OVER:
            _logger.info(
                "%s: the ISR is not ours to ask for: %s", partition.topic_partition, answer
            )
            term.isr_answer_lost()
            return True
        return False

    def _say_refused(self, partition: Partition, change: IsrChange, code: ErrorCode) -> None:
        """Log a refusal once for each partition and cause, until its ISR changes."""
        level = logging.DEBUG if self._said.get(partition) is code else logging.INFO
        self._said[partition] = code
        _logger.log(
            level, "%s: the ISR stays, %s is refused (%s): %s", partition.topic_partition,
            [member for member, _ in change.in_sync], code.name, _CAUSES[code],
        )  # fmt: skip

    def _committed(self, partition: Partition, term: LeaderTerm, answer: IsrAnswer) -> bool:
        if answer.leader_epoch != partition.leader_epoch:
            term.isr_answer_lost()
            return True  # another broker leads by now, as orders will tell
        before = term.in_sync
        partition.role.isr_committed(answer.isr, answer.partition_epoch)
        self._not_before.pop(partition, None)
        self._said.pop(partition, None)
        if term.pending is not None:
            return False  # not newer than the known state: no answer about this change
        self.shrinks += bool(before - term.in_sync)
        self.expands += bool(term.in_sync - before)
        return True

    def _later(self, partition: Partition, seconds: float) -> None:
        self._not_before[partition] = self._clock.monotonic() + seconds


def _wire(partition: Partition, term: LeaderTerm, change: IsrChange) -> AskedIsr:
    return AskedIsr(
        partition.topic_partition,
        partition.leader_epoch,
        change.partition_epoch,
        tuple(member for member, _ in change.in_sync),
        tuple(epoch for _, epoch in change.in_sync),
    )
