"""What a test of the cursor knows of single offsets."""

from typing import NamedTuple

from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import RecordState

Kept = tuple[RecordState, int, float | None]
"""State, tries, and when it is ready."""


class Known(NamedTuple):
    """One offset in the model."""

    state: RecordState
    tries: int = 0
    holder: str | None = None
    deadline: float | None = None
    ready_at: float | None = None


class FoldingCursor(Cursor):
    """Keeps few offsets listed."""

    FOLDED_FROM = 4


def said(state: CursorState, now: float) -> dict[int, Kept]:
    """Return what a state says of single offsets, delays that are over aside."""
    ready = {
        offset: delay.ready_at
        for delay in state.delays
        for offset in range(delay.first, delay.last + 1)
    }
    found: dict[int, Kept] = {
        offset: (one.state, one.tries, ready.get(offset))
        for one in state.batches
        for offset in range(one.first, one.last + 1)
    }
    return in_time(found, now)


def in_time(kept: dict[int, Kept], now: float) -> dict[int, Kept]:
    """Return what is kept, delays that are over aside."""
    return {
        at: (state, tries, None if ready is None or ready <= now else ready)
        for at, (state, tries, ready) in kept.items()
    }
