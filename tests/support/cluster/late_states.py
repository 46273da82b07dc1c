"""Where share groups' state is kept, as from afar: answers come when a test says so."""

from collections.abc import Callable, Sequence

from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.share_states import ShareStates
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done


class LateStates:
    """`ShareStatePort` before what the broker keeps; `answer` lets go what waits."""

    def __init__(self, states: ShareStates) -> None:
        self._states = states
        self.held: list[Callable[[], None]] = []
        """What is still to be told, in the order in which it was found."""
        self.error: ErrorCode | None = None
        """What reads and initializations end with from now on; None: as they do."""

    def answer(self) -> None:
        """Tell all that waits."""
        held, self.held = self.held, []
        for tell in held:
            tell()

    def read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        def found(kept: StateRead | ApiError | None) -> None:
            answer = kept if self.error is None else ApiError(self.error)
            self.held.append(lambda: done(answer))

        self._states.read(key, leader_epoch, found)

    def read_summary(self, key: ShareKey, done: Done[StateSummary | ApiError | None]) -> None:
        def found(kept: StateSummary | ApiError | None) -> None:
            answer = kept if self.error is None else ApiError(self.error)
            self.held.append(lambda: done(answer))

        self._states.read_summary(key, found)

    def make(
        self, keys: Sequence[ShareKey], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        self._states.make(keys, state_epoch, done)

    def initialize(
        self, wanted: Sequence[tuple[ShareKey, int]], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        def begun(error: ErrorCode | None) -> None:
            self.held.append(lambda: done(error or self.error))

        self._states.initialize(wanted, state_epoch, begun)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        self._states.write(key, state_epoch, leader_epoch, change, done)

    def delete(self, keys: Sequence[ShareKey], done: Done[ErrorCode | None]) -> None:
        self._states.delete(keys, lambda error: self.held.append(lambda: done(error)))

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        self._states.when_settled(key, done)
