"""Transactions that take too long: aborted once, under the next epoch, unless they end before."""

import pytest

from headrace.coordination.transactions.timers import _time_out
from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, Config, Room, begun

S = TransactionStatus
OPEN = TransactionState(5, 3, 60_000, S.ONGOING, frozenset({P0}), 1_000, 31_000)


def room() -> Room:
    return Room(Config(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000))


def test_a_transaction_that_takes_too_long_is_aborted_everywhere_and_counted_once() -> None:
    here = room()
    who = begun(here)
    here.clock.advance(59)
    assert here.state().status is S.ONGOING
    assert here.transactions.counts.timed_out == 0
    here.clock.advance(2)
    assert here.state().status is S.COMPLETE_ABORT
    assert here.state().epoch == who.epoch + 1
    assert [here.data(partition).outcome(value) for partition, value in ((P0, "a"), (P1, "b"))] == [
        "ABORT",
        "ABORT",
    ]
    here.clock.advance(120)
    counts = here.transactions.counts
    assert (counts.timed_out, counts.aborted, counts.committed) == (1, 1, 0)
    assert here.end(who).code is not ErrorCode.NONE


def test_a_transaction_that_ended_in_time_is_left_alone() -> None:
    here = room()
    who = begun(here)
    here.clock.advance(30)
    assert here.end(who).code is ErrorCode.NONE
    here.clock.advance(120)
    assert here.state().status is S.COMPLETE_COMMIT
    counts = here.transactions.counts
    assert (counts.timed_out, counts.aborted, counts.committed) == (0, 0, 1)


def test_a_coordinator_that_is_closed_looks_at_no_transaction_any_more() -> None:
    here = room()
    begun(here)
    shard = here.shard
    here.transactions.close()
    looked: list[str] = []
    shard.change = lambda name, *_: looked.append(name)  # type: ignore[method-assign]
    here.clock.advance(120)
    assert looked == []


@pytest.mark.parametrize(
    ("state", "now_ms"),
    [(None, 10**9), (OPEN, 60_999), (OPEN._replace(status=S.PREPARE_COMMIT), 61_000)],
)
def test_nothing_is_aborted_that_is_not_overdue_when_its_turn_comes(
    state: TransactionState | None, now_ms: int
) -> None:
    assert _time_out(state, now_ms, None) is None


def test_what_is_overdue_is_decided_to_be_aborted_now() -> None:
    decided = _time_out(OPEN, 61_000, None)
    assert decided is not None
    assert (decided.status, decided.epoch, decided.last_epoch) == (S.PREPARE_ABORT, 4, 3)
    assert (decided.updated_ms, decided.started_ms) == (61_000, 1_000)


def test_several_overdue_transactions_are_aborted_in_one_look() -> None:
    here = room()
    for name in (ID, "other"):
        who = here.producer(name)
        assert here.add(who, P0, name=name).code is ErrorCode.NONE
    here.clock.advance(61)
    assert [here.state(name).status for name in (ID, "other")] == [S.COMPLETE_ABORT] * 2
    assert here.transactions.counts.timed_out == 2
