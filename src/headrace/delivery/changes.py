"""`Changes`: the changes of a cursor that must be stored, and up to where it may deliver.

A record is delivered only once a durable state covers it: otherwise a power failure would have it
delivered again as if for the first time. Each state covers up to `ahead` further offsets.
"""

from headrace.delivery.cursor_state import CursorState, in_order
from headrace.delivery.record_runs import RecordRuns
from headrace.delivery.record_states import RecordState, StateBatch

NO_BOUND = 1 << 62


class Changes:
    """The changes of a cursor since the last `take`."""

    __slots__ = ("_ahead", "_notes", "_start_taken", "_told", "durable_below")

    def __init__(self, start: int, told: int, ahead: int | None) -> None:
        """Begin without changes. `told`: offset below which a durable state covers deliveries."""
        self._ahead = ahead
        self._notes: list[StateBatch] = []
        self._start_taken = start
        self._told = told
        self.durable_below = told if ahead is not None else NO_BOUND
        """Offset from which on nothing may be delivered yet."""

    def note(self, first: int, last: int, state: RecordState, tries: int) -> StateBatch:
        """Record the new state of offsets `first` to `last`, and return it."""
        noted = StateBatch(first, last, state, tries)
        self._notes.append(noted)
        return noted

    def add(self, noted: StateBatch) -> None:
        """Record the new state of a batch of offsets."""
        self._notes.append(noted)

    def is_due(self, end: int) -> bool:
        """Return whether a change must be stored to deliver offsets from `end` on, now or soon."""
        return self._ahead is not None and end + self._ahead // 2 >= self._told

    def take(self, runs: RecordRuns, settled: int) -> CursorState | None:
        """Return the changes since the last call; None: nothing must be stored."""
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
