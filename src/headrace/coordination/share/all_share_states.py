"""`AllShareStates`: state of share groups, requested from the leader of its partition with retries.

Questions about one key are sent one at a time, in order, so that a retry is never overtaken. Writes
that wait are merged. Errors of a change of leader, or of a lost connection, are retried with the
present leader for `RETRY_SECONDS`: each question is idempotent (ADR 28).
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import (
    Answer,
    Begin,
    Delete,
    Question,
    Read,
    ReadSummary,
    Write,
    put,
)
from headrace.coordination.share.share_states import ShareStates
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done, first_error
from headrace.ports.clock import Clock
from headrace.shards.ask_leader import LEADER_CHANGES, AskLeader, Retry

RETRY_SECONDS = 20.0
"""Seconds in which a question is retried: longer than a broker's session in the store, shorter than
clients wait for a response."""
RETRY = Retry(LEADER_CHANGES, RETRY_SECONDS)
_CLOSED = ApiError(ErrorCode.NOT_COORDINATOR, "this broker stops")


class OtherStates(Protocol):
    """State of share groups that other brokers store."""

    def ask(self, broker: BrokerId, question: Question, done: Done[Answer]) -> None:
        """Ask `broker` once; NETWORK_EXCEPTION: it may or may not have been carried out."""


class _Asked:
    """A question with the callbacks for its answer."""

    __slots__ = ("dones", "question")

    def __init__(self, question: Question | None, done: Done[Answer]) -> None:
        self.question = question
        """None: wait only until the earlier questions are answered."""
        self.dones = [done]

    def takes(self, question: Question | None, done: Done[Answer]) -> bool:
        """Merge the write `question` into this one, which is not in flight; return whether it was.

        False: one of them is no write, or the writes cannot be merged.
        """
        if not isinstance(self.question, Write) or not isinstance(question, Write):
            return False
        both = self.question.with_next(question)
        if both is None:
            return False
        self.question = both
        self.dones.append(done)
        return True

    def tell(self, answer: Answer) -> None:
        for done in self.dones:
            done(answer)


class _Line:
    """The queue of requests about one key's state, of which at most one is in flight."""

    __slots__ = ("going_on", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Asked] = deque()
        self.under_way: _Asked | None = None
        self.going_on = False


class AllShareStates:
    """State of share groups in the cluster. Implements `ShareStatePort`. On the deciding thread."""

    def __init__(
        self,
        local: ShareStates,
        own: BrokerId,
        others: Callable[[], OtherStates],
        clock: Clock,
    ) -> None:
        """Create the access. `local`: the state that broker `own` stores. `others`: called late."""
        led = local.led

        def remote(broker: BrokerId, question: Question, done: Done[Answer]) -> None:
            others().ask(broker, question, done)

        self._leader: AskLeader[Question, Answer] = AskLeader(
            own,
            lambda question: led.leader_of(local.partition_for(question.key), own),
            partial(put, local),
            remote,
            clock,
            RETRY,
        )
        self._lines: dict[ShareKey, _Line] = {}
        self._open = True

    # `state_port.ShareStatePort`

    def read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Call `done` with the stored state of `key`, behind all earlier changes."""
        self._ask(Read(key, leader_epoch), cast("Done[Answer]", done))

    def read_summary(self, key: ShareKey, done: Done[StateSummary | ApiError | None]) -> None:
        """Call `done` with the start offset and counts of `key`."""
        self._ask(ReadSummary(key), cast("Done[Answer]", done))

    def make(
        self, keys: Sequence[ShareKey], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Create the state of each key that has none.

        `done` is called once, with the first error.
        """
        self._ask_all([Begin(key, state_epoch, NOT_SET) for key in keys], done)

    def initialize(
        self, wanted: Sequence[tuple[ShareKey, int]], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Reset each key to its start offset; `done` is called once, with the first error."""
        self._ask_all([Begin(key, state_epoch, start) for key, start in wanted], done)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        """Store changes of `key`."""
        self._ask_all([Write(key, state_epoch, leader_epoch, change)], done)

    def delete(self, keys: Sequence[ShareKey], done: Done[ErrorCode | None]) -> None:
        """Delete the state of `keys`; `done` is called once, with the first error."""
        self._ask_all([Delete(key) for key in keys], done)

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        """Call `done` once each earlier question about `key` has its answer."""
        self._put_in_line(key, None, lambda _: done())

    def close(self) -> None:
        """End all questions with NOT_COORDINATOR, and each later one."""
        self._open = False
        lines, self._lines = self._lines, {}
        self._leader.close(_CLOSED)
        for line in lines.values():
            while line.waiting:
                line.waiting.popleft().tell(_CLOSED)

    def _ask_all(self, questions: Sequence[Question], done: Done[ErrorCode | None]) -> None:
        answered = first_error(len(questions), done)
        for question in questions:
            self._ask(
                question,
                lambda answer: answered(answer.code if isinstance(answer, ApiError) else None),
            )

    def _ask(self, question: Question, done: Done[Answer]) -> None:
        self._put_in_line(question.key, question, done)

    def _put_in_line(self, key: ShareKey, question: Question | None, done: Done[Answer]) -> None:
        if not self._open:
            done(_CLOSED)
            return
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        if not (line.waiting and line.waiting[-1].takes(question, done)):
            line.waiting.append(_Asked(question, done))
        self._go_on(key, line)

    def _go_on(self, key: ShareKey, line: _Line) -> None:
        """Send the next question; a loop, as answers may arrive at once and add questions."""
        if line.going_on:
            return
        line.going_on = True
        while line.under_way is None and line.waiting:
            asked = line.waiting.popleft()
            if asked.question is None:
                asked.tell(None)
                continue
            line.under_way = asked
            self._leader.ask(asked.question, partial(self._answered, key, line, asked))
        line.going_on = False
        if line.under_way is None and self._lines.get(key) is line:
            del self._lines[key]

    def _answered(self, key: ShareKey, line: _Line, asked: _Asked, answer: Answer) -> None:
        line.under_way = None
        asked.tell(answer)
        if self._open:
            self._go_on(key, line)
