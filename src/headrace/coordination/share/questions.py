"""Requests for the stored state of one key, as values that can be retried.

They correspond to the methods of `state_port.ShareStatePort`, for one key each.
"""

from typing import NamedTuple, TypeVar

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.state_port import ShareStatePort, StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState, in_order
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

T = TypeVar("T")
Answer = StateRead | StateSummary | ApiError | None
"""The stored state, or an error; None: no state is stored, or the change is done."""


class Read(NamedTuple):
    """A request for the state of `key` by the leader of `leader_epoch` (ReadShareGroupState)."""

    key: ShareKey
    leader_epoch: int


class ReadSummary(NamedTuple):
    """A request for the start offset and counts of `key` (ReadShareGroupStateSummary)."""

    key: ShareKey


class Begin(NamedTuple):
    """InitializeShareGroupState; a start of NOT_SET leaves existing state unchanged."""

    key: ShareKey
    state_epoch: int
    start: int


class Write(NamedTuple):
    """A change of the state of `key` to store (WriteShareGroupState)."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    change: CursorState

    def with_next(self, later: "Write") -> "Write | None":
        """Return this write merged with a later one; None: they are of other epochs."""
        if self[:3] != later[:3]:
            return None
        start = max(self.change.start, later.change.start)
        batches = in_order((*self.change.batches, *later.change.batches), start)
        return self._replace(change=CursorState(start, batches, later.change.settled))


class Delete(NamedTuple):
    """The deletion of the state of `key` (DeleteShareGroupState)."""

    key: ShareKey


Question = Read | ReadSummary | Begin | Write | Delete


def put(states: ShareStatePort, question: Question, done: Done[Answer]) -> None:
    """Carry out a question on `states`; `done` receives the answer, at once or later."""

    def ended(error: ErrorCode | None) -> None:
        done(None if error is None else ApiError(error))

    match question:
        case Read(key, leader_epoch):
            states.read(key, leader_epoch, done)
        case ReadSummary(key):
            states.read_summary(key, done)
        case Begin(key, state_epoch, start) if start == NOT_SET:
            states.make([key], state_epoch, ended)
        case Begin(key, state_epoch, start):
            states.initialize([(key, start)], state_epoch, ended)
        case Write(key, state_epoch, leader_epoch, change):
            states.write(key, state_epoch, leader_epoch, change, ended)
        case Delete(key):
            states.delete([key], ended)
