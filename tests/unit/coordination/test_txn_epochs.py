"""Producer ids and epochs: who is fenced, what an end asked twice or too late is answered."""

import pytest

from headrace.coordination.transactions import records
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import EPOCH_LAST, TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, TV2, Config, Room, begun

_E = ErrorCode
_S = TransactionStatus

# Producer ids and epochs


def test_a_new_id_begins_at_epoch_0_and_each_initialization_fences_the_one_before() -> None:
    room = Room()
    first = room.producer()
    second = room.producer()
    assert (first.epoch, second.epoch) == (0, 1)
    assert first.producer_id == second.producer_id
    assert room.add(first, P0).code is _E.PRODUCER_FENCED
    assert room.add(second, P0).code is _E.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    assert Room().init(timeout_ms=timeout_ms).code is _E.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_that_names_its_epoch_gets_the_next_and_asked_again_the_same() -> None:
    room = Room()
    first = room.producer()
    second = room.init(expected=first).result
    assert second == ProducerEpoch(first.producer_id, 1)
    assert room.init(expected=first).result == second
    assert room.init(expected=ProducerEpoch(first.producer_id, 7)).code is _E.PRODUCER_FENCED


def test_a_producer_that_names_anothers_id_is_fenced() -> None:
    room = Room()
    room.producer()
    assert room.init(expected=ProducerEpoch(5, 0)).code is _E.PRODUCER_FENCED


def test_an_initialization_in_between_ends_the_right_to_name_the_epoch_before() -> None:
    room = Room()
    first = room.producer()
    room.producer()
    assert room.init(expected=first).code is _E.PRODUCER_FENCED


def at_epoch(room: Room, epoch: int) -> ProducerEpoch:
    """A producer whose id has come to `epoch`, as the log says."""
    who = room.producer()
    record = records.value(TransactionState(who.producer_id, epoch, 60_000, updated_ms=1))
    room.shard.apply(0, None, records.key(ID), record)
    return ProducerEpoch(who.producer_id, epoch)


def test_used_up_epochs_make_a_new_producer_id() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    fresh = room.producer()
    assert fresh.epoch == 0
    assert fresh.producer_id != last.producer_id


def test_used_up_epochs_make_a_new_producer_id_for_who_names_the_last_one_twice() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    fresh = room.init(expected=last).result
    assert fresh.epoch == 0
    again = room.init(expected=last)
    assert again.result == fresh


def test_an_open_transaction_of_a_used_up_epoch_is_aborted_before_the_new_id_is_given() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0)
    room.write(last, P0, "a", 0)
    fresh = room.producer()
    assert fresh.producer_id != last.producer_id
    assert room.data(P0).outcome("a") == "ABORT"


def test_more_ids_than_the_limit_are_refused_and_known_ones_are_not() -> None:
    room = Room(Config(transactional_ids_max=1))
    room.producer()
    assert room.init("other").code is _E.POLICY_VIOLATION
    assert room.init().code is _E.NONE


# Asking twice, and too late


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_asked_again_is_answered_again_and_another_is_refused(commit: bool) -> None:
    room = Room()
    who = begun(room)
    assert room.end(who, commit).code is _E.NONE
    assert room.end(who, commit).code is _E.NONE
    assert room.end(who, not commit).code is _E.INVALID_TXN_STATE
    assert room.data(P0).values() == ["a", "COMMIT" if commit else "ABORT"]


def test_an_end_without_a_transaction_is_refused() -> None:
    room = Room()
    assert room.end(room.producer()).code is _E.INVALID_TXN_STATE
    assert room.end(ProducerEpoch(1, 1), name="other").code is _E.INVALID_PRODUCER_ID_MAPPING


def test_version_2_gives_each_transaction_an_epoch_of_its_own() -> None:
    room = Room()
    who = begun(room, TV2)
    following = room.end(who, version=TV2).result
    assert following == ProducerEpoch(who.producer_id, who.epoch + 1)
    assert room.end(who, version=TV2).result == following
    assert room.data(P0).entries[-1].epoch == following.epoch


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_never_touches_the_next_transaction(commit: bool) -> None:
    room = Room()
    who = begun(room, TV2)
    following = room.end(who, commit, version=TV2).result
    room.add(following, P0, version=TV2)
    room.write(following, P0, "next", 0)
    assert room.end(who, commit, version=TV2).code is _E.PRODUCER_FENCED
    assert room.end(who, not commit, version=TV2).code is _E.PRODUCER_FENCED
    assert room.state().status is _S.ONGOING
    assert room.data(P0).outcome("next") is None


def test_a_late_batch_of_version_2_is_refused_by_its_epoch() -> None:
    room = Room()
    who = begun(room, TV2)
    room.end(who, version=TV2)
    with pytest.raises(ApiError) as refused:
        room.write(who, P0, "late", 1)
    assert refused.value.code is _E.PRODUCER_FENCED


def test_version_2_aborts_an_empty_transaction_to_move_its_epoch_on() -> None:
    room = Room()
    who = room.producer()
    assert room.end(who, commit=True, version=TV2).code is _E.INVALID_TXN_STATE
    assert room.end(who, commit=False, version=TV2).result.epoch == who.epoch + 1


def test_version_2_goes_on_under_a_new_id_where_the_epochs_are_used_up() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0, version=TV2)
    room.write(last, P0, "a", 0)
    room.data(P0).hold = True
    fresh = room.end(last, version=TV2).result
    assert fresh.epoch == 0
    assert fresh.producer_id != last.producer_id
    asked = room.add(fresh, P1, version=TV2)
    assert asked.waits
    room.data(P0).flush()
    assert asked.code is _E.NONE
    assert room.end(last, version=TV2).code is _E.INVALID_PRODUCER_ID_MAPPING


def test_the_end_under_a_used_up_epoch_is_answered_again() -> None:
    room = Room()
    last = at_epoch(room, EPOCH_LAST)
    room.add(last, P0, version=TV2)
    fresh = room.end(last, version=TV2).result
    assert room.end(last, version=TV2).result == fresh
