"""What of a cursor is to be kept: what has changed, and how far records may be handed out.

A record must not be handed out before a state is durable that tells of it, or it would come again
after a power cut as if for the first time. So the state tells ahead: up to `ahead` offsets more.
"""

from headrace.delivery.cursor_state import CursorState, in_order
from headrace.delivery.record_runs import RecordRuns
from headrace.delivery.record_states import RecordState, StateBatch

NO_BOUND = 1 << 62


class Changes:
    """What one cursor has done since its change was taken last."""

    __slots__ = ("_ahead", "_notes", "_start_taken", "_told", "durable_below")

    def __init__(self, start: int, told: int, ahead: int | None) -> None:
        """`told`: below which a durable state tells that records may have been handed out."""
        self._ahead = ahead
        self._notes: list[StateBatch] = []
        self._start_taken = start
        self._told = told
        self.durable_below = told if ahead is not None else NO_BOUND
        """Nothing is to be handed out from there on yet."""

    def note(self, first: int, last: int, state: RecordState, tries: int) -> StateBatch:
        """Note what has become of `first` to `last`."""
        noted = StateBatch(first, last, state, tries)
        self._notes.append(noted)
        return noted

    def add(self, noted: StateBatch) -> None:
        """Note what has become of a batch."""
        self._notes.append(noted)

    def is_due(self, end: int) -> bool:
        """Tell whether a change is wanted so that more may be handed out, now or soon."""
        return self._ahead is not None and end + self._ahead // 2 >= self._told

    def take(self, runs: RecordRuns, settled: int) -> CursorState | None:
        """Take what is new since this was asked last; None: nothing that must be kept."""
        start, end = runs.start, runs.end
        notes, self._notes = self._notes, []
        batches = in_order(notes, start) if notes else ()
        if self._ahead is not None and self.is_due(end):
            self._told = end + self._ahead
        elif not batches and start == self._start_taken:
            return None
        self._start_taken = start
        told = 0 if self._ahead is None else self._told
        return CursorState(start, batches, settled, told, runs.delays(batches))

    def kept(self, change: CursorState) -> None:
        """Note that `change` is durable."""
        if self._ahead is not None:
            self.durable_below = max(self.durable_below, change.handed_out)
