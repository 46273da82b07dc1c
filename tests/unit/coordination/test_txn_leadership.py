"""Markers of decided transactions when the leadership of a coordinator begins and ends."""

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import P0, P1, Room, begun

_E = ErrorCode
_S = TransactionStatus


def test_former_coordinator_does_not_retry_markers() -> None:
    """Its epoch is superseded, and the next coordinator writes them."""
    room = Room()
    first, second = begun(room), room.producer("other")
    room.add(second, P1, name="other")
    room.data(P1).refusal = _E.NOT_ENOUGH_REPLICAS
    room.end(first)
    room.end(second, name="other")
    written = len(room.participants.asked)
    room.transactions.led.resign(0)
    room.data(P1).refusal = None
    room.clock.advance(1)
    assert len(room.participants.asked) == written
    assert room.data(P1).values() == ["b"]


def test_markers_committed_after_the_leadership_complete_nothing() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    records, shard = room.partition.pairs(), room.shard
    room.transactions.led.resign(0)
    room.data(P1).flush()
    room.clock.advance(1)
    assert room.partition.pairs() == records
    assert shard.transactions == {}
    assert room.transactions.counts.committed == 0


def test_begin_does_not_repeat_markers_that_are_being_written() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    room.shard.begin()
    assert room.participants.asked == [[P0, P1]]
    room.data(P1).flush()
    room.clock.advance()
    assert (room.data(P0).values(), room.data(P1).values()) == (["a", "COMMIT"], ["b", "COMMIT"])
    assert room.state().status is _S.COMPLETE_COMMIT


@pytest.mark.parametrize("begins_first", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_markers_wait_for_the_committed_decision_and_for_the_metadata_image(
    commit: bool, begins_first: bool
) -> None:
    """Without the image each partition would count as deleted, and need no marker."""
    room = Room(joined=False)
    who = begun(room)
    room.partition.hold = True
    room.end(who, commit)
    steps = [room.transactions.begin, room.partition.flush]
    if not begins_first:
        steps.reverse()
    for step in steps:
        assert room.participants.asked == []
        step()
        room.clock.advance()
    assert room.participants.asked == [[P0, P1]]
    assert room.data(P0).outcome("a") == ("COMMIT" if commit else "ABORT")


def test_begin_writes_the_markers_of_each_decided_transaction() -> None:
    room = Room(joined=False)
    first, second = begun(room), room.producer("other")
    room.add(second, P1, name="other")
    room.end(first, commit=False)
    room.end(second, name="other")
    room.transactions.begin()
    room.clock.advance()
    assert room.state().status is _S.COMPLETE_ABORT
    assert room.state("other").status is _S.COMPLETE_COMMIT
    assert room.data(P1).values() == ["b", "ABORT", "COMMIT"]
