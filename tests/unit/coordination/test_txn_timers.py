"""Transactions and time: what takes too long, what nobody uses, what is tried again."""

import pytest

from headrace.coordination.transactions import decide
from headrace.coordination.transactions.describe import Filter
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, P2, TV1, Config, Room

_E = ErrorCode
_S = TransactionStatus


def begun(room: Room) -> ProducerEpoch:
    """A producer with a transaction open in two partitions."""
    who = room.producer()
    assert room.add(who, P0, P1, version=TV1).code is _E.NONE
    return who


@pytest.mark.parametrize("restarts", [False, True])
def test_partitions_added_late_give_a_transaction_no_more_time(restarts: bool) -> None:
    room = Room(Config(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000))
    who = begun(room)
    room.clock.advance(50)
    assert room.add(who, P2).code is _E.NONE
    room = room.restart() if restarts else room
    room.clock.advance(9)
    assert room.state().status is _S.ONGOING
    room.clock.advance(2)
    assert room.state().status is _S.COMPLETE_ABORT


def test_time_is_up_for_transactions_and_ids_when_it_is_reached() -> None:
    state = TransactionState(5, 3, 60_000, _S.ONGOING, frozenset({P0}), 1_000, 31_000)
    assert not decide.has_timed_out(state, 60_999)
    assert decide.has_timed_out(state, 61_000)
    assert not decide.has_expired(state, 10, 10**9)
    idle = state._replace(status=_S.COMPLETE_COMMIT)
    assert not decide.has_expired(idle, 5_000, 35_999)
    assert decide.has_expired(idle, 5_000, 36_000)


def test_ids_are_forgotten_again_and_again_and_not_before_they_are_committed() -> None:
    room = Room(Config(transactional_id_expiration_ms=3_600_000))
    for _ in range(2):
        room.producer("idle")
        room.clock.advance(3 * 3600)
        assert "idle" not in room.shard.transactions
    room.partition.hold = True
    room.init("late")
    room.clock.advance(3 * 3600)
    assert "late" in room.shard.transactions
    room.partition.hold = False
    room.partition.flush()


def test_an_id_whose_forgetting_is_refused_is_known_still() -> None:
    room = Room(Config(transactional_id_expiration_ms=3_600_000))
    room.producer("idle")
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    room.clock.advance(3 * 3600)
    assert "idle" in room.shard.transactions


def test_a_new_initializations_timeout_counts() -> None:
    room = Room()
    room.producer(timeout_ms=60_000)
    room.producer(timeout_ms=5_000)
    assert room.state().timeout_ms == 5_000


@pytest.mark.parametrize("code", [_E.INVALID_PRODUCER_EPOCH, _E.TRANSACTION_COORDINATOR_FENCED])
def test_a_partition_that_knows_better_needs_no_marker(code: ErrorCode) -> None:
    room = Room()
    who = begun(room)
    room.data(P1).refusal = code
    assert room.end(who).code is _E.NONE
    assert room.state().status is _S.COMPLETE_COMMIT


def test_a_completion_the_log_refuses_is_written_later() -> None:
    room = Room()
    who = begun(room)
    room.data(P1).hold = True
    room.end(who)
    room.partition.refusal = _E.NOT_ENOUGH_REPLICAS
    room.data(P1).flush()
    room.clock.advance()
    assert room.state().status is _S.PREPARE_COMMIT
    room.partition.refusal = None
    room.clock.advance(60)
    assert room.state().status is _S.COMPLETE_COMMIT


def test_transactions_are_listed_by_when_they_began_and_only_older_ones() -> None:
    wanted = Filter.of(older_than_ms=4_000)
    state = TransactionState(5, 3, 60_000, _S.ONGOING, frozenset({P0}), 1_000, 4_500)
    assert not wanted.takes(ID, state, 5_000)
    assert wanted.takes(ID, state, 5_001)
    assert not Filter.of(older_than_ms=0).takes(ID, state, 1_000)
