"""Each decision about a transaction: the whole state that comes out of it, or the refusal."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.coordination.transactions import decide
from headrace.coordination.transactions.decide import NeedsProducerId
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import (
    DECIDED,
    EPOCH_LAST,
    TransactionState,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import P0, P1, P2, TV1, TV2

_E = ErrorCode
_S = TransactionStatus
NOW = 90_000
IDLE = TransactionState(
    5, 3, 60_000, _S.COMPLETE_COMMIT, frozenset(), 1_000, 2_000, last_epoch=2, client_version=TV2
)
OPEN = IDLE._replace(status=_S.ONGOING, partitions=frozenset({P0}))
ENDING = OPEN._replace(status=_S.PREPARE_COMMIT, epoch=4, last_epoch=3)
WHO = ProducerEpoch(5, 3)


def refusal(decision: Callable[[], Any]) -> ErrorCode:
    """What the decision is refused with."""
    with pytest.raises(ApiError) as refused:
        decision()
    return refused.value.code


def test_a_new_id_begins_empty_with_the_producer_id_given() -> None:
    with pytest.raises(NeedsProducerId):
        decide.initialize(None, None, 7_000, NOW, None)
    state = decide.initialize(None, None, 7_000, NOW, 0)
    assert state == TransactionState(0, 0, 7_000, _S.EMPTY, frozenset(), -1, NOW)


def test_the_next_initialization_moves_the_epoch_on_and_forgets_the_transaction_before() -> None:
    state = decide.initialize(IDLE, None, 7_000, NOW, None)
    assert state == TransactionState(
        5, 4, 7_000, _S.EMPTY, frozenset(), -1, NOW, -1, 5, client_version=TV2
    )
    named = decide.initialize(IDLE, WHO, 7_000, NOW, None)
    assert named == state._replace(last_epoch=3)


def test_the_epoch_before_may_be_named_again_and_no_other() -> None:
    again = decide.initialize(IDLE, ProducerEpoch(5, 2), 7_000, NOW, None)
    assert (again.producer_id, again.epoch, again.last_epoch) == (5, 3, 2)
    for epoch in (1, 4):
        wrong = ProducerEpoch(5, epoch)
        assert refusal(lambda who=wrong: decide.initialize(IDLE, who, 1, NOW, 9)) is (  # type: ignore[misc]
            _E.PRODUCER_FENCED
        )


def test_the_last_epoch_is_used_and_the_one_behind_it_is_not() -> None:
    nearly = IDLE._replace(epoch=EPOCH_LAST - 1)
    state = decide.initialize(nearly, None, 1, NOW, None)
    assert (state.producer_id, state.epoch) == (5, EPOCH_LAST)
    last = IDLE._replace(epoch=EPOCH_LAST)
    with pytest.raises(NeedsProducerId):
        decide.initialize(last, None, 1, NOW, None)
    state = decide.initialize(last, ProducerEpoch(5, EPOCH_LAST), 1, NOW, 9)
    assert (state.producer_id, state.epoch, state.last_epoch) == (9, 0, EPOCH_LAST)
    assert state.previous_producer_id == 5


def test_a_producer_that_missed_its_new_id_may_name_the_old_one_with_its_last_epoch() -> None:
    rotated = IDLE._replace(producer_id=9, epoch=0, last_epoch=EPOCH_LAST, previous_producer_id=5)
    state = decide.initialize(rotated, ProducerEpoch(5, EPOCH_LAST), 1, NOW, None)
    assert (state.producer_id, state.epoch) == (9, 0)
    early = rotated._replace(last_epoch=EPOCH_LAST - 1)
    for state, who in (
        (early, ProducerEpoch(5, EPOCH_LAST - 1)),
        (rotated, ProducerEpoch(4, EPOCH_LAST)),
    ):
        code = refusal(lambda state=state, who=who: decide.initialize(state, who, 1, NOW, None))  # type: ignore[misc]
        assert code is _E.PRODUCER_FENCED


def test_an_initialization_aborts_what_is_open_and_waits_for_what_is_ending() -> None:
    aborted = decide.initialize(OPEN, None, 7_000, NOW, None)
    assert aborted == decide.fence(OPEN, NOW, None)
    assert refusal(lambda: decide.initialize(ENDING, None, 1, NOW, None)) is (
        _E.CONCURRENT_TRANSACTIONS
    )
    stranger = ProducerEpoch(6, 3)
    for state in (IDLE, OPEN, ENDING):
        code = refusal(lambda state=state: decide.initialize(state, stranger, 1, NOW, 9))  # type: ignore[misc]
        assert code is _E.PRODUCER_FENCED


def test_who_was_fenced_does_not_abort_what_another_has_open() -> None:
    assert decide.initialize(OPEN, WHO, 7_000, NOW, None) == decide.fence(OPEN, NOW, None)
    rotated = OPEN._replace(producer_id=9, epoch=0, previous_producer_id=5)
    for state, who in (
        (OPEN, ProducerEpoch(5, 1)),
        (OPEN, ProducerEpoch(5, 2)),
        (rotated, ProducerEpoch(5, EPOCH_LAST)),
    ):
        code = refusal(lambda state=state, who=who: decide.initialize(state, who, 1, NOW, 9))  # type: ignore[misc]
        assert code is _E.PRODUCER_FENCED


def test_a_fenced_transaction_aborts_under_the_next_epoch_and_keeps_its_beginning() -> None:
    aborted = decide.fence(OPEN._replace(client_version=TV1), NOW, 9)
    assert aborted == TransactionState(
        5, 4, 60_000, _S.PREPARE_ABORT, frozenset({P0}), 1_000, NOW, 3, 5, client_version=TV2
    )


def test_the_last_epochs_end_goes_out_under_the_one_kept_for_it_with_an_id_to_go_on() -> None:
    last = OPEN._replace(epoch=EPOCH_LAST)
    with pytest.raises(NeedsProducerId):
        decide.fence(last, NOW, None)
    ending = decide.fence(last, NOW, 9)
    assert (ending.producer_id, ending.epoch, ending.next_producer_id) == (5, EPOCH_LAST + 1, 9)
    again = decide.fence(last._replace(epoch=EPOCH_LAST + 1), NOW, 9)
    assert again.epoch == EPOCH_LAST + 1
    nearly = decide.fence(OPEN._replace(epoch=EPOCH_LAST - 1), NOW, 9)
    assert (nearly.epoch, nearly.next_producer_id) == (EPOCH_LAST, -1)


def test_the_first_partition_begins_a_transaction_and_later_ones_keep_its_beginning() -> None:
    begun = decide.add(IDLE, WHO, [P0], TV1, NOW)
    assert begun == TransactionState(
        5, 3, 60_000, _S.ONGOING, frozenset({P0}), NOW, NOW, 2, 5, client_version=TV1
    )
    assert begun is not None
    more = decide.add(begun, WHO, [P1, P0], TV1, NOW + 5)
    assert more == begun._replace(partitions=frozenset({P0, P1}), updated_ms=NOW + 5)
    assert decide.add(begun, WHO, [P0], TV1, NOW + 5) is None
    assert decide.add(IDLE, WHO, [], TV1, NOW) is not None


@pytest.mark.parametrize(
    ("state", "who", "code"),
    [
        (None, WHO, _E.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerEpoch(6, 3), _E.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerEpoch(5, 2), _E.PRODUCER_FENCED),
        (OPEN, ProducerEpoch(5, 4), _E.PRODUCER_FENCED),
        (ENDING, ProducerEpoch(5, 4), _E.CONCURRENT_TRANSACTIONS),
        (ENDING._replace(next_producer_id=9), ProducerEpoch(9, 0), _E.CONCURRENT_TRANSACTIONS),
        (OPEN._replace(next_producer_id=9), ProducerEpoch(9, 0), _E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_who_may_not_add_to_a_transaction_may_not_verify_either(
    state: TransactionState | None, who: ProducerEpoch, code: ErrorCode
) -> None:
    assert refusal(lambda: decide.add(state, who, [P0], TV1, NOW)) is code
    assert refusal(lambda: decide.verify(state, who, P0)) is code


def test_only_partitions_of_an_open_transaction_are_written_to() -> None:
    decide.verify(OPEN, WHO, P0)
    assert refusal(lambda: decide.verify(OPEN, WHO, P1)) is _E.INVALID_TXN_STATE
    idle = IDLE._replace(partitions=frozenset({P0}))
    assert refusal(lambda: decide.verify(idle, WHO, P0)) is _E.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_version_1_keeps_the_epoch(commit: bool) -> None:
    prepared = decide.end(OPEN, WHO, commit, TV1, NOW, None)
    status = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
    assert prepared == OPEN._replace(
        status=status, updated_ms=NOW, previous_producer_id=5, client_version=TV1
    )
    assert refusal(lambda: decide.end(None, WHO, commit, TV1, NOW, None)) is (
        _E.INVALID_PRODUCER_ID_MAPPING
    )
    other = ProducerEpoch(6, 3)
    assert refusal(lambda: decide.end(OPEN, other, commit, TV1, NOW, 9)) is (
        _E.INVALID_PRODUCER_ID_MAPPING
    )
    for epoch in (2, 4):
        old = ProducerEpoch(5, epoch)
        code = refusal(lambda old=old: decide.end(OPEN, old, commit, TV1, NOW, 9))  # type: ignore[misc]
        assert code is _E.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("status", "commit", "code"),
    [
        (_S.EMPTY, True, _E.INVALID_TXN_STATE),
        (_S.EMPTY, False, _E.INVALID_TXN_STATE),
        (_S.PREPARE_COMMIT, True, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_COMMIT, False, _E.INVALID_TXN_STATE),
        (_S.PREPARE_ABORT, True, _E.INVALID_TXN_STATE),
        (_S.PREPARE_ABORT, False, _E.CONCURRENT_TRANSACTIONS),
        (_S.COMPLETE_COMMIT, True, None),
        (_S.COMPLETE_COMMIT, False, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, True, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, False, None),
    ],
)
@pytest.mark.parametrize("version", [TV1, TV2])
def test_an_end_asked_again_is_answered_as_the_first_one_went(
    status: TransactionStatus, commit: bool, code: ErrorCode | None, version: int
) -> None:
    state = IDLE._replace(status=status)
    # Version 2's was answered with the epoch that is there now.
    who = WHO if version == TV1 else ProducerEpoch(5, 2)
    if version == TV2 and status is _S.EMPTY:
        code = _E.PRODUCER_FENCED
    if code is None:
        assert decide.end(state, who, commit, version, NOW, None) is None
    else:
        assert refusal(lambda: decide.end(state, who, commit, version, NOW, None)) is code


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_version_2_moves_the_epoch_on(commit: bool) -> None:
    prepared = decide.end(OPEN, WHO, commit, TV2, NOW, None)
    status = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
    assert prepared == TransactionState(
        5, 4, 60_000, status, frozenset({P0}), 1_000, NOW, 3, 5, client_version=TV2
    )


def test_version_2_aborts_what_is_not_open_with_a_beginning_of_now_and_commits_it_not() -> None:
    for status in (_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
        state = IDLE._replace(status=status)
        aborted = decide.end(state, WHO, False, TV2, NOW, None)
        assert aborted is not None
        assert (aborted.status, aborted.started_ms, aborted.epoch) == (_S.PREPARE_ABORT, NOW, 4)
        code = refusal(lambda state=state: decide.end(state, WHO, True, TV2, NOW, None))  # type: ignore[misc]
        assert code is _E.INVALID_TXN_STATE
    ending = ENDING._replace(epoch=3)
    assert refusal(lambda: decide.end(ending, WHO, True, TV2, NOW, None)) is (
        _E.CONCURRENT_TRANSACTIONS
    )


ROTATED = IDLE._replace(producer_id=9, epoch=0, last_epoch=EPOCH_LAST, previous_producer_id=5)


@pytest.mark.parametrize(
    ("state", "who", "code"),
    [
        (ROTATED, ProducerEpoch(5, EPOCH_LAST), None),
        (ROTATED, ProducerEpoch(5, EPOCH_LAST - 1), _E.INVALID_PRODUCER_ID_MAPPING),
        (ROTATED, ProducerEpoch(4, EPOCH_LAST), _E.INVALID_PRODUCER_ID_MAPPING),
        (ROTATED._replace(epoch=1), ProducerEpoch(5, EPOCH_LAST), _E.INVALID_PRODUCER_ID_MAPPING),
        (ROTATED._replace(epoch=1), ProducerEpoch(9, 0), None),
        (IDLE._replace(client_version=TV1), ProducerEpoch(5, 2), _E.PRODUCER_FENCED),
        (IDLE, ProducerEpoch(6, 2), _E.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerEpoch(5, 2), _E.PRODUCER_FENCED),
        (OPEN, ProducerEpoch(5, 1), _E.PRODUCER_FENCED),
    ],
)
def test_who_may_ask_for_an_end_of_version_2_again(
    state: TransactionState, who: ProducerEpoch, code: ErrorCode | None
) -> None:
    if code is None:
        assert decide.end(state, who, True, TV2, NOW, 11) is None
    else:
        assert refusal(lambda: decide.end(state, who, True, TV2, NOW, 11)) is code


def test_with_its_markers_written_a_transaction_is_complete_and_goes_on_as_answered() -> None:
    done = decide.complete(ENDING, NOW)
    assert done == ENDING._replace(
        status=_S.COMPLETE_COMMIT, partitions=frozenset(), updated_ms=NOW, previous_producer_id=5
    )
    assert decide.answer_to_end(ENDING) == decide.answer_to_end(done) == (5, 4)
    rotating = ENDING._replace(status=_S.PREPARE_ABORT, epoch=EPOCH_LAST + 1, next_producer_id=0)
    done = decide.complete(rotating, NOW)
    assert (done.status, done.producer_id, done.epoch) == (_S.COMPLETE_ABORT, 0, 0)
    assert (done.previous_producer_id, done.next_producer_id) == (5, -1)
    assert decide.answer_to_end(rotating) == decide.answer_to_end(done) == (0, 0)


@pytest.mark.parametrize("status", [s for s in _S if s in DECIDED or s is _S.ONGOING])
def test_an_id_in_use_never_expires(status: TransactionStatus) -> None:
    assert not decide.has_expired(IDLE._replace(status=status), 1, 10**9)


def test_only_an_open_transaction_times_out() -> None:
    assert decide.has_timed_out(OPEN, 61_000)
    assert not decide.has_timed_out(IDLE, 61_000)
    assert not decide.has_timed_out(ENDING, 61_000)
    assert P2 not in OPEN.partitions
