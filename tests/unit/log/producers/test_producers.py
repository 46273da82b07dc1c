"""Producer state: duplicates, gaps, epochs, wraparound, transactions, snapshots."""

import pytest

from headrace.log.producers.producer_snapshot import read_snapshot
from headrace.log.producers.producer_states import Duplicate, ProducerStates
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from tests.support.log.log import NOW_MS, batch_of

SEQUENCE_MAX = (1 << 31) - 1


def header(
    sequence: int, count: int = 1, epoch: int = 0, producer: int = 1, transactional: bool = False
) -> wire.BatchHeader:
    who = (producer, epoch, sequence)
    return wire.parse_header(batch_of(*[b"x"] * count, producer=who, transactional=transactional))


def marker(states: ProducerStates, offset: int, *, commit: bool, producer: int = 1) -> object:
    kind = wire.ControlType.COMMIT if commit else wire.ControlType.ABORT
    told, sent_by = wire.ControlMarker(kind, 5), header(0, producer=producer)
    aborted = states.aborted_by(sent_by, told, Offset(offset))
    states.update_marker(sent_by, told, Offset(offset))
    return aborted


def sent(*sequences: int, base: int = 0) -> ProducerStates:
    states = ProducerStates()
    for at, sequence in enumerate(sequences):
        assert states.check(header(sequence), NOW_MS) is None
        states.update(header(sequence), base + at)
    return states


def refusal(states: ProducerStates, asked: wire.BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        states.check(asked, NOW_MS)
    return refused.value.code


def test_the_last_five_batches_are_answered_again_and_the_sixth_is_refused() -> None:
    states = sent(*range(6), base=10)
    for sequence in range(1, 6):
        found = Duplicate(Offset(10 + sequence), Offset(10 + sequence), NOW_MS)
        assert states.check(header(sequence), NOW_MS) == found
    assert refusal(states, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_other_bounds_is_no_duplicate() -> None:
    states = sent(0, 1)
    assert refusal(states, header(1, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused_where_the_producer_is_known() -> None:
    assert refusal(sent(0), header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere() -> None:
    states = sent(77)
    assert states.check(header(78), NOW_MS) is None


def test_sequences_wrap_around_behind_the_greatest_int() -> None:
    states = sent(SEQUENCE_MAX)
    assert states.check(header(0), NOW_MS) is None
    across = ProducerStates()
    across.update(header(SEQUENCE_MAX - 1, count=4), 0)
    assert across.check(header(2), NOW_MS) is None
    assert across.check(header(SEQUENCE_MAX - 1, count=4), NOW_MS) is not None


def test_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero() -> None:
    states = ProducerStates()
    states.update(header(5, epoch=3), 0)
    assert refusal(states, header(6, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states, header(6, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=4), NOW_MS) is None


def test_a_transaction_holds_the_last_stable_offset_until_its_marker_is_committed() -> None:
    states = ProducerStates()
    states.update(header(0, producer=1, transactional=True), 10)
    states.update(header(0, producer=2, transactional=True), 12)
    assert states.last_stable_offset(Offset(20)) == 10
    assert states.first_unstable_offset() == 10
    assert marker(states, 14, commit=True) is None
    assert states.last_stable_offset(Offset(14)) == 10, "the marker is not committed yet"
    assert states.last_stable_offset(Offset(15)) == 12
    aborted = marker(states, 15, commit=False, producer=2)
    assert aborted == (2, 12, 15, 16)
    assert states.last_stable_offset(Offset(16)) == 16
    assert states.coordinator_epoch(2) == 5


def test_while_a_transaction_is_open_only_what_is_there_already_may_be_outside_of_it() -> None:
    states = sent(0)
    states.update(header(1, transactional=True), 1)
    assert states.check(header(0), NOW_MS) == Duplicate(Offset(0), Offset(0), NOW_MS)
    assert refusal(states, header(2)) is ErrorCode.INVALID_TXN_STATE
    assert refusal(states, header(0, epoch=1)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_without_a_transaction_changes_nothing_readers_see() -> None:
    states = ProducerStates()
    assert marker(states, 3, commit=False) is None
    assert states.last_stable_offset(Offset(4)) == 4


def test_a_snapshot_brings_back_what_it_holds() -> None:
    states = sent(0, 1, 2)
    states.update(header(0, producer=9, transactional=True), 3)
    again = ProducerStates()
    again.kept.load(states.kept.snapshot(), "x.snapshot")
    assert again.kept.entries() == states.kept.entries()
    assert again.open_transaction(9) == 3
    assert again.check(header(2), NOW_MS) is not None
    assert again.check(header(3), NOW_MS) is None


def test_a_batch_whose_sequences_wrapped_is_a_duplicate_after_a_snapshot_too() -> None:
    across = header(SEQUENCE_MAX - 1, count=4)
    states = ProducerStates()
    states.update(across, 10)
    again = ProducerStates()
    again.kept.load(states.kept.snapshot(), "x.snapshot")
    assert again.kept.entries() == states.kept.entries()
    assert again.check(across, NOW_MS) == Duplicate(Offset(10), Offset(13), NOW_MS)
    assert again.check(header(2), NOW_MS) is None
    assert refusal(again, header(SEQUENCE_MAX - 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("first", [SEQUENCE_MAX - 1, SEQUENCE_MAX - 3], ids=["within", "between"])
def test_the_batches_before_the_last_one_are_remembered_across_the_wrap(first: int) -> None:
    """Of four records each: one of them wraps, or the wrap lies between two of them."""
    sequences = [(first + 4 * at) & SEQUENCE_MAX for at in (-1, 0, 1)]
    sent_before = [
        header(sequence, count=4)._replace(base_offset=4 * at)
        for at, sequence in enumerate(sequences)
    ]
    states = ProducerStates()
    for one in sent_before:
        states.update(one, one.base_offset)
    again = ProducerStates()
    again.kept.load(states.kept.snapshot(), "x.snapshot")
    again.kept.remember(1, sent_before)
    for at, sequence in enumerate(sequences):
        found = again.check(header(sequence, count=4), NOW_MS)
        assert found == Duplicate(Offset(4 * at), Offset(4 * at + 3), NOW_MS)


def test_a_damaged_snapshot_is_not_taken() -> None:
    content = bytearray(sent(0).kept.snapshot())
    for at in range(len(content)):
        content[at] ^= 1
        with pytest.raises(CorruptLogError):
            read_snapshot(bytes(content), "x.snapshot")
        content[at] ^= 1
    for size in range(len(content)):
        with pytest.raises(CorruptLogError):
            read_snapshot(bytes(content[:size]), "x.snapshot")


def test_a_producer_of_yesterdays_events_is_silent_only_since_it_was_heard() -> None:
    states = ProducerStates()
    states.update(header(0), 0, heard_ms=NOW_MS + 5000)
    assert states.expire(NOW_MS + 5999, 1000) == 0
    again = ProducerStates()
    again.kept.load(states.kept.snapshot(), "x.snapshot", heard_ms=lambda _: NOW_MS + 5000)
    assert again.expire(NOW_MS + 5999, 1000) == 0
    assert again.expire(NOW_MS + 6000, 1000) == 1


def test_expiry_spares_open_transactions() -> None:
    states = sent(0)
    states.update(header(0, producer=2, transactional=True), 1)
    assert states.expire(NOW_MS + 999, 1000) == 0
    assert states.expire(NOW_MS + 1000, 1000) == 1
    assert 1 not in states
    assert 2 in states
