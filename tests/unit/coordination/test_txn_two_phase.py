"""Transactions without timeout, and transactions that are kept for another to end (KIP-939)."""

from typing import Any

import pytest

from headrace.coordination.transactions import decide, records
from headrace.coordination.transactions.decide import NeedsProducerId
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import (
    EPOCH_LAST,
    NO_TIMEOUT_MS,
    TransactionState,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus
from tests.support.coordination.txn_kit import ID, P0, P1, TV1, TV2, Asked, Config, Room

S = TransactionStatus
OPEN = TransactionState(
    5, 3, NO_TIMEOUT_MS, S.ONGOING, frozenset({P0}), 1_000, 31_000, last_epoch=2, client_version=TV2
)
NOW = 90_000
A_MONTH_SECONDS = 31 * 86_400


def keep(here: Room, expected: ProducerEpoch | None = None, *, two_phase: bool = True) -> Any:
    asked = Asked()
    here.transactions.keep_prepared(ID, 60_000, expected, asked, two_phase=two_phase)
    here.clock.advance()
    return asked.result


def prepared(here: Room) -> ProducerEpoch:
    """An open transaction without timeout, in P0 and P1; who wrote it."""
    asked = Asked()
    here.transactions.initialize(ID, 1, None, asked, two_phase=True)
    here.clock.advance()
    who: ProducerEpoch = asked.result
    assert here.add(who, P0, P1, version=TV2).code is ErrorCode.NONE
    here.write(who, P0, "a", 0)
    here.write(who, P1, "b", 0)
    return who


def test_a_transaction_of_two_phases_never_times_out() -> None:
    here = Room(Config(transaction_abort_timed_out_transaction_cleanup_interval_ms=86_400_000))
    who = prepared(here)
    assert here.state().timeout_ms == NO_TIMEOUT_MS
    here.clock.advance(A_MONTH_SECONDS)  # longer than 2^31 ms
    assert here.state().status is S.ONGOING
    assert here.end(who, version=TV2).code is ErrorCode.NONE
    assert here.data(P0).outcome("a") == "COMMIT"


@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_transaction_is_ended_by_who_asked_and_no_more_by_who_wrote_it(commit: bool) -> None:
    here = Room()
    who = prepared(here)
    client, wrote = keep(here)
    assert (client, wrote) == (ProducerEpoch(who.producer_id, who.epoch + 1), who)
    assert here.end(who, version=TV2).code is ErrorCode.PRODUCER_FENCED
    assert here.add(who, P0, version=TV2).code is ErrorCode.PRODUCER_FENCED
    assert here.add(client, P0, version=TV2).code is ErrorCode.INVALID_TXN_STATE
    following = here.end(client, commit, version=TV2).result
    assert following == ProducerEpoch(who.producer_id, who.epoch + 2)
    outcome = "COMMIT" if commit else "ABORT"
    assert [here.data(P0).outcome("a"), here.data(P1).outcome("b")] == [outcome, outcome]
    assert here.data(P0).entries[-1].epoch == who.epoch + 1  # the next of who wrote
    assert here.end(client, commit, version=TV2).result == following  # asked again
    assert here.end(client, not commit, version=TV2).code is ErrorCode.INVALID_TXN_STATE
    assert here.add(following, P0, version=TV2).code is ErrorCode.NONE
    here.write(following, P0, "c", 0)


def test_a_kept_transaction_is_kept_again_by_the_next_and_survives_a_restart() -> None:
    here = Room()
    who = prepared(here)
    first, _ = keep(here)
    here = here.restart()
    assert here.end(who, version=TV2).code is ErrorCode.PRODUCER_FENCED
    second, wrote = keep(here)
    assert (second.epoch, wrote) == (first.epoch + 1, who)
    assert here.end(first, version=TV2).code is ErrorCode.PRODUCER_FENCED
    here = here.restart()
    assert here.end(second, version=TV1).code is ErrorCode.NONE  # in whatever version
    assert here.data(P1).outcome("b") == "COMMIT"
    assert here.state().epoch == second.epoch + 1
    assert not here.state().kept


def test_a_kept_transaction_that_is_initialized_without_keeping_is_aborted() -> None:
    here = Room()
    who = prepared(here)
    client, _ = keep(here)
    following = here.producer()
    assert here.data(P0).outcome("a") == "ABORT"
    assert following.epoch > client.epoch > who.epoch
    assert here.state().timeout_ms == 60_000


def test_without_an_open_transaction_keeping_is_initializing() -> None:
    here = Room()
    client, wrote = keep(here)
    assert (client.epoch, wrote) == (0, None)
    client, wrote = keep(here, client)
    assert (client.epoch, wrote) == (1, None)
    assert here.state().timeout_ms == NO_TIMEOUT_MS


def test_a_transaction_that_may_time_out_cannot_be_kept() -> None:
    here = Room()
    who = here.producer()
    here.add(who, P0, version=TV2)
    refused = keep(here)
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.INVALID_TXN_STATE
    assert here.end(who, version=TV2).code is ErrorCode.NONE


def test_a_timeout_out_of_range_is_refused_unless_there_is_none() -> None:
    here = Room()
    asked = Asked()
    here.transactions.initialize(ID, 0, None, asked)
    assert asked.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    asked = Asked()
    here.transactions.keep_prepared(ID, 900_001, None, asked, two_phase=False)
    assert asked.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_who_names_a_producer_that_is_not_the_present_one_keeps_nothing() -> None:
    for expected in (ProducerEpoch(5, 2), ProducerEpoch(6, 3)):
        with pytest.raises(ApiError) as refused:
            decide.keep(OPEN, expected, NO_TIMEOUT_MS, NOW, None)
        assert refused.value.code is ErrorCode.PRODUCER_FENCED
    state = decide.keep(OPEN, ProducerEpoch(5, 3), NO_TIMEOUT_MS, NOW, None)
    assert (state.client, state.last_epoch) == (ProducerEpoch(5, 4), 3)


def test_used_up_epochs_bring_a_new_id_when_kept_and_when_ended() -> None:
    last = OPEN._replace(epoch=EPOCH_LAST)
    with pytest.raises(NeedsProducerId):
        decide.keep(last, None, NO_TIMEOUT_MS, NOW, None)
    kept = decide.keep(last, None, NO_TIMEOUT_MS, NOW, 9)
    assert kept.client == ProducerEpoch(9, 0)
    ending = decide.end(kept, kept.client, True, TV2, NOW, None)
    assert ending is not None
    assert (ending.producer_id, ending.epoch) == (5, EPOCH_LAST + 1)  # the markers'
    assert decide.answer_to_end(ending) == ProducerEpoch(9, 1)
    done = decide.complete(ending, NOW)
    assert (done.producer_id, done.epoch, done.kept) == (9, 1, False)

    used = OPEN._replace(next_producer_id=5, next_epoch=EPOCH_LAST)
    with pytest.raises(NeedsProducerId):
        decide.end(used, used.client, True, TV2, NOW, None)
    ending = decide.end(used, used.client, True, TV2, NOW, 9)
    assert ending is not None
    assert (ending.epoch, decide.answer_to_end(ending)) == (4, ProducerEpoch(9, 0))


def test_the_record_has_kafkas_tag_3_for_the_epoch_after_and_only_where_there_is_one() -> None:
    kept = OPEN._replace(next_producer_id=5, next_epoch=4, previous_producer_id=5)
    value = records.value(kept)
    # 4 tags: 0 and 1 of 8 bytes, 2 and 3 of 2 bytes
    tags = (
        "04" "0008" "0000000000000005" "0108" "0000000000000005" "0202" "0002" "0302" "0004"
    )  # fmt: skip
    assert value.hex().endswith(tags)
    assert records.parse_value(value)._replace(last_epoch=2) == kept
    assert b"\x03\x02" not in records.value(OPEN)[-6:]
