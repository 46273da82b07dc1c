"""`ShareStatePort`: the interface to the stored state of share groups.

`ShareStates` implements it on one broker; `AllShareStates` also asks other brokers, as Kafka does
(ReadShareGroupState, …). Answers may be late: the caller must check that they still apply.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headrace.coordination.share.keys import ShareKey
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done


class StateRead(NamedTuple):
    """The stored state of one share partition (ReadShareGroupState)."""

    state_epoch: int
    known: CursorState


class StateSummary(NamedTuple):
    """Start offset and counts of one share partition (ReadShareGroupStateSummary)."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    """Offsets from `start` on that are acknowledged or archived."""


class ShareStatePort(Protocol):
    """The stored state of share groups, on this or on other brokers."""

    def read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Call `done` with the stored state of `key`, once loaded and durable; None: no state.

        Later writes of leaders before `leader_epoch` are refused. FENCED_LEADER_EPOCH,
        NOT_COORDINATOR.
        """

    def read_summary(self, key: ShareKey, done: Done[StateSummary | ApiError | None]) -> None:
        """Call `done` with start offset and counts of `key`; None: no state is stored.

        Raises ApiError.
        """

    def make(
        self, keys: Sequence[ShareKey], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Create the state of each key that has none, with start offset NOT_SET.

        `done` as `initialize`.
        """

    def initialize(
        self, wanted: Sequence[tuple[ShareKey, int]], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Reset each key to its start offset; `done` is called once, with the first error.

        State that is in `state_epoch` already stays: the request is a retry.
        """

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        """Store changes of `key`; `done(None)` is called once they are durable.

        Errors: FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION (no state is
        stored).
        """

    def delete(self, keys: Sequence[ShareKey], done: Done[ErrorCode | None]) -> None:
        """Delete the state of `keys`; `done` is called once, with the first error."""

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        """Call `done` once each earlier write of `key` is durable or has failed."""
