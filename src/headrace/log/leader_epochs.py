"""The leader epochs of a partition with their start offsets (KIP-101).

Stored in `leader-epoch-checkpoint`; `text_files` has the format.
"""

from bisect import bisect_right

from headrace.model.nouns import NO_EPOCH, LeaderEpoch, Offset

NO_OFFSET = Offset(-1)


class LeaderEpochs:
    """Leader epochs and their start offsets, both ascending. The owner saves changes to the
    file."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: list[tuple[LeaderEpoch, Offset]] | None = None) -> None:
        self._entries = list(entries or ())
        self.latest = self._newest()
        """The newest leader epoch; -1 if the log has none."""

    def _newest(self) -> LeaderEpoch:
        return self._entries[-1][0] if self._entries else NO_EPOCH

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """All (epoch, start offset) pairs, oldest first."""
        return list(self._entries)

    def assign(self, epoch: LeaderEpoch, start: Offset) -> bool:
        """Add an epoch that begins at offset `start`; return whether the entries changed.

        Entries with a later start or a higher epoch, left by a truncated tail, are removed, as in
        Kafka's LeaderEpochFileCache.
        """
        if epoch < 0 or (self._entries and self._entries[-1][0] == epoch):
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start):
            self._entries.pop()
        self._entries.append((epoch, start))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the greatest epoch not above `epoch` and its end offset; (-1, -1) if unknown.

        As Kafka's LeaderEpochFileCache.endOffsetFor: the newest epoch ends at the log's end; an
        epoch above the newest is unknown, as is every epoch if there are no entries; an epoch below
        the oldest ends where the oldest begins.
        """
        if epoch < 0 or not self._entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        at = bisect_right([known for known, _ in self._entries], epoch)
        if at == len(self._entries):
            return NO_EPOCH, NO_OFFSET
        if at == 0:
            return epoch, self._entries[0][1]
        return self._entries[at - 1][0], self._entries[at][1]

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch under which the record at `offset` was or would be written; -1 if
        unknown."""
        at = bisect_right([start for _, start in self._entries], offset)
        return self._entries[at - 1][0] if at else NO_EPOCH

    def truncate_from_end(self, end: Offset) -> bool:
        """Remove epochs that begin at or above offset `end`; return whether any were removed."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end:
            self._entries.pop()
        self.latest = self._newest()
        return len(self._entries) != before

    def truncate_from_start(self, start: Offset) -> bool:
        """Remove epochs that ended below offset `start`; the epoch of `start` now begins there.

        Returns whether the entries changed.
        """
        before = list(self._entries)
        kept = [entry for entry in self._entries if entry[1] > start]
        older = [entry for entry in self._entries if entry[1] <= start]
        if older:
            kept.insert(0, (older[-1][0], start))
        self._entries = kept
        self.latest = self._newest()
        return kept != before
