"""What who shares partitions out, and who coordinates the groups, asks of where state is kept.

That is `ShareStates` on the broker itself; another broker may be asked behind the same calls, as
Kafka's brokers do (ReadShareGroupState and its like). Every answer may come later: what was so when
it was asked for has to be looked at again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headrace.coordination.share.keys import ShareKey
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done


class StateRead(NamedTuple):
    """What is kept of one share partition (ReadShareGroupState)."""

    state_epoch: int
    known: CursorState


class StateSummary(NamedTuple):
    """How far one share partition is (ReadShareGroupStateSummary)."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    """Offsets from `start` on that are settled."""


class ShareStatePort(Protocol):
    """All state of share groups, wherever it is kept."""

    def read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Call `done` with what is kept of `key`, once that is loaded; None: nothing is.

        All of it is durable then, and so is that who led the partition before `leader_epoch` can
        write no more. ApiError: FENCED_LEADER_EPOCH, NOT_COORDINATOR where it is kept elsewhere.
        """

    def read_summary(self, key: ShareKey, done: Done[StateSummary | ApiError | None]) -> None:
        """Call `done` with how far `key` is; None: nothing is kept.

        ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """

    def make(
        self, keys: Sequence[ShareKey], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Have something kept of each key, where to begin still open; `done` as `initialize`.

        What is kept already stays as it is.
        """

    def initialize(
        self, wanted: Sequence[tuple[ShareKey, int]], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Begin each key anew at its start offset; `done` with the first error, once for all.

        What is kept in `state_epoch` already has begun by an earlier asking: it stays as it is.
        """

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        """Keep what is new of `key`; `done(None)` once that is durable.

        `done` with FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH or UNKNOWN_TOPIC_OR_PARTITION where the
        asker's picture is not the one kept.
        """

    def delete(self, keys: Sequence[ShareKey], done: Done[ErrorCode | None]) -> None:
        """Keep nothing of `keys`; `done` with the first error, once for all."""

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        """Call back once all that was written of `key` before is durable, or has failed."""
