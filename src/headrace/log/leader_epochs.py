"""Which leader epoch began at which offset (KIP-101), kept in `leader-epoch-checkpoint`."""

from bisect import bisect_right

from headrace.model.nouns import NO_EPOCH, LeaderEpoch, Offset

NO_OFFSET = Offset(-1)


class LeaderEpochs:
    """Epochs and their first offsets, both growing. Changes are the owner's to save."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: list[tuple[LeaderEpoch, Offset]] | None = None) -> None:
        self._entries = list(entries or ())
        self.latest = self._newest()
        """The newest epoch, -1 where there is none."""

    def _newest(self) -> LeaderEpoch:
        return self._entries[-1][0] if self._entries else NO_EPOCH

    @property
    def entries(self) -> list[tuple[LeaderEpoch, Offset]]:
        """(epoch, start offset), oldest first."""
        return list(self._entries)

    def assign(self, epoch: LeaderEpoch, start: Offset) -> bool:
        """Say that `epoch` begins at `start`; returns whether that is news.

        Entries that this contradicts (a later start or a higher epoch, left by a tail that was cut)
        go, as in Kafka's LeaderEpochFileCache.
        """
        if epoch < 0 or (self._entries and self._entries[-1][0] == epoch):
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start):
            self._entries.pop()
        self._entries.append((epoch, start))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the greatest epoch not above `epoch` and where it ended; (-1, -1) where not known.

        Kafka's LeaderEpochFileCache.endOffsetFor: the newest epoch ends at the log's end; an epoch
        above the newest, or none at all, is not known; one below the oldest ends where that began.
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
        """Return the epoch in which `offset` was, or would be, written; -1 below the oldest."""
        at = bisect_right([start for _, start in self._entries], offset)
        return self._entries[at - 1][0] if at else NO_EPOCH

    def truncate_from_end(self, end: Offset) -> bool:
        """Forget epochs that begin at or beyond `end`; returns whether there were any."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end:
            self._entries.pop()
        self.latest = self._newest()
        return len(self._entries) != before

    def truncate_from_start(self, start: Offset) -> bool:
        """Forget epochs that ended below `start`; the one it lies in now begins there."""
        before = list(self._entries)
        kept = [entry for entry in self._entries if entry[1] > start]
        older = [entry for entry in self._entries if entry[1] <= start]
        if older:
            kept.insert(0, (older[-1][0], start))
        self._entries = kept
        self.latest = self._newest()
        return kept != before
