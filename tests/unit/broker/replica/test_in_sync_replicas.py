"""The ISR of a term: who may join it, who has to leave it, and which one is in force meanwhile."""

import pytest

from headrace.broker.replica.in_sync_replicas import (
    ALONE,
    InSyncReplicas,
    IsrChange,
    ReplicaFetch,
    Replicas,
)
from headrace.model.nouns import BrokerId, Offset

ONE, TWO, THREE, FOUR = (BrokerId(number) for number in (1, 2, 3, 4))
START = Offset(10)


def isr_of(*in_sync: BrokerId, epoch: int = 5) -> InSyncReplicas:
    """The ISR of leader 1, one of three replicas, whose term begins at offset 10 and second 100."""
    return InSyncReplicas(Replicas(ONE, (ONE, TWO, THREE), in_sync, epoch), START, 100.0)


def fetched(
    isr: InSyncReplicas, replica: BrokerId, end: int, leader_end: int, now: float, **more: int
) -> bool:
    """A fetch of a replica that has flushed all it has."""
    flushed = more.get("flushed", end)
    said = ReplicaFetch(replica, Offset(end), Offset(flushed), more.get("replica_epoch", 1))
    return isr.note_fetch(said, Offset(leader_end), now)


def test_a_leader_without_replicas_is_alone() -> None:
    isr = InSyncReplicas(ALONE, START, 0.0)
    assert isr.alone
    assert isr.lowest_end(Offset(7), flushed=True) == 7
    assert isr.shrink(Offset(7), 1e9, 1.0) is None
    assert not isr_of(ONE, TWO).alone
    assert isr_of(ONE).alone


def test_a_leader_is_alone_until_who_joins_is_written_into_the_isr() -> None:
    """Seed 1423: cut off, it acknowledged with one who was to join, and neither was elected."""
    isr = isr_of(ONE)
    fetched(isr, TWO, 20, 20, 101.0)
    assert isr.join(TWO, START, flushed=True) is not None
    assert isr.alone
    assert isr.committed((ONE, TWO), 6)
    assert not isr.alone


def test_the_lowest_end_is_that_of_the_slowest_in_sync_and_of_nobody_else() -> None:
    isr = isr_of(ONE, TWO)
    assert isr.lowest_end(Offset(20), flushed=False) == -1
    fetched(isr, TWO, 15, 20, 101.0, flushed=12)
    fetched(isr, THREE, 3, 20, 101.0)
    assert isr.lowest_end(Offset(20), flushed=False) == 15
    assert isr.lowest_end(Offset(20), flushed=True) == 12
    assert isr.lowest_end(Offset(11), flushed=True) == 11
    stranger = InSyncReplicas(Replicas(ONE, (ONE,), (ONE, FOUR)), START, 0.0)
    assert stranger.lowest_end(Offset(20), flushed=True) == -1


def test_a_fetch_of_a_stranger_or_of_a_broker_before_its_restart_counts_nothing() -> None:
    isr = isr_of(ONE, TWO)
    assert not fetched(isr, FOUR, 20, 20, 101.0)
    assert isr.progress(FOUR) is None
    assert fetched(isr, TWO, 12, 20, 101.0, replica_epoch=3)
    assert not fetched(isr, TWO, 20, 20, 102.0, replica_epoch=2)
    assert fetched(isr, TWO, 13, 20, 103.0, replica_epoch=3)
    known = isr.progress(TWO)
    assert known is not None
    assert (known.log_end, known.flushed_end, known.replica_epoch) == (13, 13, 3)


def test_who_has_the_leaders_end_is_caught_up_now_and_who_has_its_former_end_was_then() -> None:
    isr = isr_of(ONE, TWO)
    known = isr.progress(TWO)
    assert known is not None
    assert known.caught_up_at == 100.0
    fetched(isr, TWO, 12, 20, 110.0)
    assert known.caught_up_at == 100.0
    fetched(isr, TWO, 19, 30, 120.0)
    assert known.caught_up_at == 100.0
    fetched(isr, TWO, 30, 40, 130.0)  # all that was there at its fetch at 120
    assert known.caught_up_at == 120.0
    fetched(isr, TWO, 50, 50, 140.0)
    assert known.caught_up_at == 140.0
    fetched(isr, TWO, 50, 60, 150.0)
    assert known.caught_up_at == 140.0


def test_being_caught_up_never_moves_back() -> None:
    isr = isr_of(ONE, TWO)
    known = isr.progress(TWO)
    assert known is not None
    fetched(isr, TWO, 12, 20, 90.0)
    fetched(isr, TWO, 20, 30, 95.0)
    assert known.caught_up_at == 100.0


def test_who_is_not_in_sync_at_the_start_has_never_been_caught_up() -> None:
    known = isr_of(ONE, TWO).progress(THREE)
    assert known is not None
    assert known.caught_up_at == float("-inf")
    assert isr_of(ONE).progress(ONE) is None


def test_who_has_all_below_the_high_watermark_and_the_terms_start_may_join() -> None:
    isr = isr_of(ONE, TWO)
    fetched(isr, TWO, 20, 20, 101.0, replica_epoch=8)
    fetched(isr, THREE, 9, 20, 101.0)
    assert isr.join(THREE, Offset(5), flushed=False) is None
    fetched(isr, THREE, 10, 20, 102.0, flushed=9)
    assert isr.join(THREE, Offset(11), flushed=False) is None
    assert isr.join(THREE, Offset(5), flushed=True) is None
    change = isr.join(THREE, Offset(10), flushed=False)
    assert change == IsrChange(5, ((ONE, -1), (TWO, 8), (THREE, 1)))
    assert isr.pending is change
    assert isr.in_sync == {ONE, TWO}
    assert isr.maximal == {ONE, TWO, THREE}


def test_the_isr_stays_in_the_order_it_is_written_in_and_who_joins_comes_last() -> None:
    isr = isr_of(THREE, ONE)
    fetched(isr, TWO, 20, 20, 101.0)
    change = isr.join(TWO, Offset(10), flushed=True)
    assert change is not None
    assert [member for member, _ in change.in_sync] == [THREE, ONE, TWO]
    assert isr.committed((THREE, ONE, TWO), 6)
    change = isr.shrink(Offset(30), 1000.0, 1.0)
    assert change is not None
    assert [member for member, _ in change.in_sync] == [ONE]
    isr = isr_of(THREE, TWO, ONE)
    fetched(isr, THREE, 30, 30, 1000.0)
    change = isr.shrink(Offset(30), 1000.0, 1.0)
    assert change is not None
    assert [member for member, _ in change.in_sync] == [THREE, ONE]


def test_nobody_joins_twice_or_while_a_change_is_pending() -> None:
    isr = isr_of(ONE)
    for replica in (TWO, THREE):
        fetched(isr, replica, 20, 20, 101.0)
    assert isr.join(TWO, START, flushed=True) is not None
    assert isr.join(THREE, START, flushed=True) is None
    assert isr.shrink(Offset(30), 1e9, 1.0) is None
    assert isr.committed((ONE, TWO), 6)
    assert isr.join(TWO, START, flushed=True) is None
    assert isr.join(THREE, START, flushed=True) is not None


def test_who_lags_for_longer_than_it_may_has_to_leave() -> None:
    isr = isr_of(ONE, TWO, THREE)
    fetched(isr, TWO, 20, 20, 105.0)
    fetched(isr, THREE, 19, 20, 105.0)
    assert isr.shrink(Offset(20), 110.0, 10.0) is None
    change = isr.shrink(Offset(20), 110.1, 10.0)
    assert change is not None
    assert [member for member, _ in change.in_sync] == [ONE, TWO]
    assert isr.in_sync == isr.maximal == {ONE, TWO, THREE}


def test_who_has_all_there_is_never_lags_and_who_holds_no_replica_always_does() -> None:
    isr = isr_of(ONE, TWO)
    fetched(isr, TWO, 20, 20, 105.0)
    assert isr.shrink(Offset(20), 1e9, 10.0) is None
    stranger = InSyncReplicas(Replicas(ONE, (ONE,), (ONE, FOUR)), START, 0.0)
    change = stranger.shrink(Offset(0), 0.0, 10.0)
    assert change == IsrChange(0, ((ONE, -1),))


def test_what_the_controller_wrote_counts_unless_it_is_old() -> None:
    isr = isr_of(ONE, TWO, THREE)
    assert not isr.committed((ONE,), 5)
    assert not isr.committed((ONE,), 4)
    assert isr.in_sync == {ONE, TWO, THREE}
    isr.shrink(Offset(20), 200.0, 10.0)
    assert isr.committed((ONE, TWO), 6)
    assert isr.in_sync == isr.maximal == {ONE, TWO}
    assert isr.pending is None
    assert isr.partition_epoch == 6


def test_a_change_that_is_refused_leaves_the_isr_as_it_was() -> None:
    isr = isr_of(ONE)
    fetched(isr, TWO, 20, 20, 101.0)
    isr.join(TWO, START, flushed=True)
    assert isr.refused() is None
    assert isr.pending is None
    assert isr.maximal == {ONE}


@pytest.mark.parametrize("asked", [True, False])
def test_where_an_answer_was_lost_a_refusal_leaves_the_union_until_the_isr_is_written_anew(
    asked: bool,
) -> None:
    isr = isr_of(ONE)
    fetched(isr, TWO, 20, 20, 101.0)
    if not asked:
        isr.answer_lost()  # of nothing
    isr.join(TWO, START, flushed=True)
    if asked:
        isr.answer_lost()
        again = isr.refused()
        assert again == IsrChange(5, ((ONE, -1),))
        assert isr.pending is again
        assert isr.maximal == {ONE, TWO}
        assert isr.committed((ONE,), 6)
        fetched(isr, TWO, 20, 20, 102.0)
        isr.join(TWO, START, flushed=True)
    assert isr.refused() is None
    assert isr.maximal == {ONE}


def test_a_fetch_that_names_no_registration_has_an_epoch_before_all_others() -> None:
    isr = isr_of(ONE, TWO)
    assert isr.note_fetch(ReplicaFetch(TWO, Offset(3), Offset(3)), Offset(3), 101.0)
    assert fetched(isr, TWO, 3, 3, 102.0, replica_epoch=0)
    assert not isr.note_fetch(ReplicaFetch(TWO, Offset(3), Offset(3)), Offset(3), 103.0)


def test_lowest_start_is_of_the_leader_and_the_replicas_that_live() -> None:
    isr = isr_of(ONE, TWO)
    for replica, start in ((TWO, 7), (THREE, 4)):
        said = ReplicaFetch(replica, Offset(20), Offset(20), 1, Offset(start))
        assert isr.note_fetch(said, Offset(20), 101.0)
    lowest = [isr.lowest_start(Offset(9), living) for living in ((ONE,), (ONE, TWO), (TWO, THREE))]
    assert lowest == [9, 7, 4]
    assert isr.lowest_start(Offset(3), (TWO, THREE)) == 3
