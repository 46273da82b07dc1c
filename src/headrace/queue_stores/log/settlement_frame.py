"""A frame of a queue's settled positions, from the time it is taken until all replicas have it."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.delivery.settled_runs import runs_of, union
from headrace.delivery.settled_state import FrameName, SettledState, encode_frame
from headrace.queue_stores.unacked_positions import HandedOut

if TYPE_CHECKING:
    from headrace.queue_stores.log.settlement import Settlement

Settled = tuple[Sequence[int], Sequence[tuple[int, int]]]
"""Settled positions, and runs of those settled without a delivery."""


def has_any(settled: Settled, first: int, below: int) -> bool:
    """Tell whether a position from `first` to below `below` was settled."""
    positions, runs = settled
    if any(first <= position < below for position in positions):
        return True
    return any(begin < below and first <= end for begin, end in runs)


class SettlementFrame:
    """A frame of a settlement. Implements `settled_files.SettledFrame`."""

    def __init__(
        self,
        settlement: "Settlement",
        at: int | None,
        state: SettledState,
        settled: Settled,
        out: HandedOut | None = None,
        mark: int = 0,
    ) -> None:
        """Create a frame to write.

        `settled`: what was settled since the frame before. `out`: the unsettled deliveries below
        `mark`, for a frame of the complete state.
        """
        self.path = settlement.path
        self.at = at
        self.start = state.start
        self.handed_out = state.handed_out
        self.number = state.number
        self.settled = settled
        self._settlement = settlement
        self._state = state
        self._out = out
        self._mark = mark

    @property
    def name(self) -> FrameName:
        """The frame's name among all replicas."""
        return self._state.name

    @property
    def whole(self) -> bool:
        """Whether the frame has the complete state."""
        return self._state.whole

    @cached_property
    def content(self) -> bytes:
        """The encoded frame; a complete state is encoded on the thread that writes it."""
        state, out = self._state, self._out
        if out is not None:
            gaps = runs_of(out.gaps(state.start, self._mark))
            state = state._replace(runs=union((gaps, state.runs)))
        return encode_frame(state)

    def written(self, error: OSError | None) -> None:
        """Report a frame's write, or its error, to the settlement."""
        self._settlement.frame_written(self, error)
