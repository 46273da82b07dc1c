"""A queue on three brokers through kills, power cuts, truncations and elections (ADR 77).

Nothing is redelivered whose acknowledgement all in-sync replicas had, no unsettled message is
skipped, and each delivered message that comes again is called redelivered. The same histories find
each rule that is left out.
"""

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.joining import by_log
from headrace.copies import queue_copies
from headrace.copies.copying import Copying
from headrace.copies.followed_file import FollowedFile
from headrace.copies.frame_copy import FrameCopy
from headrace.copies.messages import CopyQuestion
from headrace.copies.queue_copies import QueueCopies
from headrace.delivery.settled_state import NO_FRAME
from headrace.model.errors import ApiError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId
from headrace.queue_stores.log.log_writing import LogWriting
from headrace.queue_stores.log.message_window import MessageWindow
from headrace.queue_stores.log.settlement import Settlement
from tests.support.cluster.replicated_queue import play
from tests.support.cluster.three_replicas import Violation
from tests.support.examples import examples

STEPS = 2000
SEEDS = examples(45)
SEEDS_MAX = 300


@pytest.mark.parametrize("block", range(2))
def test_confirmed_settlements_survive_and_no_message_is_skipped(block: int) -> None:
    clusters = [play(block * SEEDS + seed, STEPS) for seed in range(SEEDS)]
    assert sum(len(cluster.gone) for cluster in clusters) > 5 * SEEDS
    assert sum(cluster.redeliveries for cluster in clusters) > SEEDS
    assert sum(cluster.controller.epoch for cluster in clusters) > 4 * SEEDS


def assert_found(first: int = 0) -> None:
    """Play histories from a seed on; `first` is near one that shows a rare fault."""
    for seed in range(first, first + SEEDS_MAX):
        try:
            play(seed, STEPS)
        except (Violation, InvariantError):
            return
    pytest.fail("no history shows it")


@pytest.mark.long
def test_a_new_leader_that_sends_no_complete_frame_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept, load = FollowedFile._accept, Settlement.load

    def loads(self: Settlement, content: bytes, *, copied: bool = False) -> int:
        return load(self, content)

    def accepts(self: FollowedFile, question: CopyQuestion) -> None:
        accept(self, question._replace(follows=self.accepted))

    def begins(self: FrameCopy, partition: Partition) -> None:
        begin(self, partition)
        self.needs_whole = False

    begin = FrameCopy.__init__
    monkeypatch.setattr(Settlement, "load", loads)
    monkeypatch.setattr(Settlement, "want_whole", Settlement.change)
    monkeypatch.setattr(FrameCopy, "__init__", begins)
    monkeypatch.setattr(FollowedFile, "_accept", accepts)
    assert_found(140)


@pytest.mark.long
def test_a_join_without_a_complete_frame_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Copying.lead

    def leads(self: Copying, partition: object, settlement: Settlement) -> QueueCopies:
        copies = lead(self, partition, settlement)  # type: ignore[arg-type]
        partition.may_join = by_log  # type: ignore[attr-defined]
        return copies

    monkeypatch.setattr(Copying, "lead", leads)
    assert_found(100)


@pytest.mark.long
def test_a_join_with_frames_that_lag_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    may_join = QueueCopies.may_join

    def joins(self: QueueCopies, broker: BrokerId) -> bool:
        may_join(self, broker)
        self._joining.clear()
        copy = self.by_broker.get(broker)
        return copy is not None and copy.confirmed != NO_FRAME

    monkeypatch.setattr(QueueCopies, "may_join", joins)
    assert_found(285)


@pytest.mark.long
def test_frames_that_are_not_clipped_by_epoch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settlement, "_end_of_epoch", lambda self, epoch: 1 << 40)
    assert_found()


@pytest.mark.long
def test_positions_recorded_on_the_own_disk_alone_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(QueueCopies, "_numbers", lambda self: [self._written])
    assert_found()


@pytest.mark.long
def test_deliveries_while_a_member_is_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_copies, "LATE_SECONDS", 100.0)
    assert_found()


@pytest.mark.long
def test_memory_that_a_resigned_leader_keeps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageWindow, "release", lambda self: None)
    assert_found()


@pytest.mark.long
def test_confirm_after_the_resignation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def committed(self: LogWriting, end: int, error: ApiError | None) -> None:
        if error is None:
            self._listener.confirmed(end)

    monkeypatch.setattr(LogWriting, "_committed", committed)
    assert_found()
