"""Rules of in-sync replicas left out, for whatever should find that."""

import pytest

from headrace.broker.replica.in_sync_replicas import InSyncReplicas, IsrChange
from headrace.model.nouns import BrokerId, Offset


def ask_for_without_union(monkeypatch: pytest.MonkeyPatch, *, joins: bool) -> None:
    """Have a change of the ISR count at once (a shrink) or only when it is written (a join)."""
    ask_for = InSyncReplicas._ask_for

    def planted(self: InSyncReplicas, wanted: frozenset[BrokerId]) -> IsrChange:
        change = ask_for(self, wanted)
        if joins is not (wanted <= self.in_sync):
            self.maximal = self.in_sync if joins else wanted
        return change

    monkeypatch.setattr(InSyncReplicas, "_ask_for", planted)


def join_below_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replicas join that are below the start of the leader's term."""
    join = InSyncReplicas.join

    def planted(
        self: InSyncReplicas, replica: BrokerId, high_watermark: Offset, *, flushed: bool
    ) -> IsrChange | None:
        start, self.start = self.start, Offset(0)
        try:
            return join(self, replica, high_watermark, flushed=flushed)
        finally:
            self.start = start

    monkeypatch.setattr(InSyncReplicas, "join", planted)
