"""`ShareCursorStore`: stores one share partition's cursor as its group's state, by `state_port`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.coordination.share.keys import ShareKey
    from headrace.coordination.share.state_port import ShareStatePort

_RETRIED = frozenset({
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
})  # fmt: skip


class ShareCursorStore:
    """The store of one share partition's cursor in one state epoch. Implements `CursorStore`."""

    def __init__(
        self, states: "ShareStatePort", key: "ShareKey", partition: "Partition", state_epoch: int
    ) -> None:
        self._states = states
        self._key = key
        self._partition = partition
        self._state_epoch = state_epoch

    def write(self, change: CursorState, done: Done[ApiError | None]) -> None:
        """Store `change`; `done` receives the error that a client is to get."""

        def written(error: ErrorCode | None) -> None:
            done(None if error is None else _as_client_sees(error))

        leader_epoch = self._partition.leader_epoch
        self._states.write(self._key, self._state_epoch, leader_epoch, change, written)

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call `done` once each earlier write is durable or has failed."""
        self._states.when_settled(self._key, done)


def _as_client_sees(error: ErrorCode) -> ApiError:
    """Return COORDINATOR_NOT_AVAILABLE for any unreachable coordinator (as Kafka), or the error."""
    if error in _RETRIED:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return ApiError(error)
