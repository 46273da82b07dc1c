"""A coordinator's kill in every phase of a transaction, and another broker that leads."""

import pytest

from headrace.coordination.transactions import records
from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import P0, P1, P2, TV1, TV2, Room, begun

_E = ErrorCode
_S = TransactionStatus


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_kill_while_a_transaction_is_open_leaves_it_open(version: int) -> None:
    room = Room()
    who = begun(room, version)
    after = room.restart()
    assert after.state().status is _S.ONGOING
    after.write(who, P0, "more", 1)
    assert after.end(who, version=version).code is _E.NONE
    assert after.data(P0).outcome("more") == after.data(P1).outcome("b") == "COMMIT"


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_kill_after_the_decision_writes_the_markers_that_are_missing(version: int) -> None:
    room = Room()
    who = begun(room, version)
    room.data(P1).refusal = _E.NOT_ENOUGH_REPLICAS
    room.end(who, version=version)
    assert room.data(P1).values() == ["b"]
    room.data(P1).refusal = None
    after = room.restart()
    assert after.state().status is _S.COMPLETE_COMMIT
    assert after.data(P0).outcome("a") == after.data(P1).outcome("b") == "COMMIT"
    assert after.end(who, version=version).code is _E.NONE


def test_a_kill_between_the_markers_and_their_note_changes_nothing_for_readers() -> None:
    room = Room()
    who = begun(room)
    room.end(who)
    room.partition.log.batches.pop()
    decided = room.restart()
    assert decided.state().status is _S.COMPLETE_COMMIT
    assert decided.data(P0).values() == ["a", "COMMIT", "COMMIT"]
    decided.add(who, P0)
    decided.write(who, P0, "next", 1)
    assert decided.data(P0).outcome("next") is None


def test_a_decision_that_was_not_flushed_is_not_acted_on_after_a_power_cut() -> None:
    room = Room()
    who = begun(room)
    room.partition.hold = True
    room.end(who)
    after = room.restart(lose_unflushed=True)
    assert after.state().status is _S.ONGOING
    assert after.data(P0).values() == ["a"]
    assert after.end(who, commit=False).code is _E.NONE


def test_what_was_decided_waits_for_the_cluster_to_be_known() -> None:
    room = Room()
    who = begun(room)
    room.data(P0).refusal = room.data(P1).refusal = _E.NOT_LEADER_OR_FOLLOWER
    room.end(who)
    room.data(P0).refusal = room.data(P1).refusal = None
    after = room.restart(joined=False)
    assert after.data(P0).values() == ["a"]
    after.transactions.begin()
    assert after.data(P0).values() == ["a", "COMMIT"]
    assert after.data(P1).values() == ["b", "COMMIT"]


def test_whoever_waits_is_told_when_another_broker_leads() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    asked = room.add(who, P2)
    room.transactions.led.resign(0)
    assert asked.code is _E.NOT_COORDINATOR
    assert room.init().code is _E.NOT_COORDINATOR


def test_a_state_survives_its_record() -> None:
    partitions = frozenset({P0, P1, TopicPartition("u", 7)})
    state = TransactionState(5, 3, 60_000, _S.PREPARE_ABORT, partitions, 10, 20, -1, 5, 6, TV2)
    assert records.parse_value(records.value(state)) == state
