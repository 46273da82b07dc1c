"""What is remembered of producers, at the edges of epochs, sequences and offsets."""

import pytest

from headrace.log.producers.kept_states import KeptProducers, Producer, ProducerBatch
from headrace.log.producers.producer_snapshot import SnapshotEntry, read_snapshot, write_snapshot
from headrace.log.producers.producer_states import Begins, ProducerStates
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.record.batch import BatchHeader
from headrace.record.crc32c import crc32c

TOP = 0x7FFF_FFFF


def header(
    sequence: int = 0, count: int = 1, *, epoch: int = 0, base: int = 0, transactional: bool = False
) -> BatchHeader:
    records = [wire.new_record(b"v", timestamp=1000 + at) for at in range(count)]
    made = wire.parse_header(
        wire.build(
            records,
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )
    return made._replace(base_offset=base)


def marker(states: ProducerStates, at: int, *, epoch: int = 0, coordinator_epoch: int = 3) -> None:
    ended = wire.ControlMarker(wire.ControlType.COMMIT, coordinator_epoch)
    states.update_marker(header(-1, epoch=epoch), ended, Offset(at))


def test_a_snapshot_is_kafkas_to_the_byte_and_nothing_else_is_one() -> None:
    entry = SnapshotEntry(7, 2, 9, 100, 3, 1234, 5, -1)
    body = b"\0\0\0\1" + (7).to_bytes(8, "big") + b"\0\2" + b"\0\0\0\x09" + (100).to_bytes(8, "big")
    body += b"\0\0\0\3" + (1234).to_bytes(8, "big") + b"\0\0\0\5" + b"\xff" * 8
    made = b"\0\1" + crc32c(body).to_bytes(4, "big") + body
    assert write_snapshot([entry]) == made
    assert read_snapshot(made, "f") == [entry]
    nothing = write_snapshot([])
    assert (len(nothing), read_snapshot(nothing, "f")) == (10, [])
    other = b"\0\2" + made[2:]
    short = b"\0\0\0\2" + body[4:]
    for damaged, reason in (
        (nothing[:9], "9 bytes, too short"),
        (other, "unknown version 2"),
        (made[:-1], "checksum"),
        (made[:2] + crc32c(short).to_bytes(4, "big") + short, "2 producers do not fit"),
    ):
        with pytest.raises(CorruptLogError, match=reason):
            read_snapshot(damaged, "f")


def test_what_is_loaded_takes_the_place_of_all_that_was_known() -> None:
    kept = KeptProducers()
    kept.producers[1], kept.ongoing[1] = Producer(0), 5
    kept.decided.append((1, 2))
    entries = [
        SnapshotEntry(7, 2, 0, 0, 0, 1234, 5, 0),
        SnapshotEntry(8, 2, -1, -1, 0, 99, -1, -1),
        SnapshotEntry(9, 0, 1, 40, 3, 1234, 5, -1),
    ]
    kept.load(write_snapshot(entries), "f", lambda offset: 10 * offset)
    assert (kept.ongoing, kept.decided) == ({7: 0}, [])
    assert kept.producers[7].batches == [ProducerBatch(0, 0, 0, 0, 1234)]
    assert kept.producers[8].batches == []
    assert kept.producers[9].batches == [ProducerBatch(TOP - 1, 1, 37, 40, 1234)], (
        "sequences begin again"
    )
    assert [kept.producers[at].heard_ms for at in (7, 8, 9)] == [0, -1, 400]
    assert kept.last_offset == 40
    assert kept.entries() == entries
    assert read_snapshot(kept.snapshot(), "f") == entries
    kept.clear()
    assert (kept.producers, kept.ongoing, kept.last_offset) == ({}, {}, -1)


def test_all_is_kept_at_rest_but_not_of_too_many_or_within_a_transaction() -> None:
    states = ProducerStates()
    states.update(header(0, 2, epoch=1), 10, 77)
    marker(states, 12, epoch=1)
    rows = states.kept.at_rest(1)
    assert rows == [[7, 1, 1000, 77, 3, [ProducerBatch(0, 1, 10, 11, 1001)]]]
    assert states.kept.at_rest(0) is None
    again = KeptProducers()
    again.set_at_rest(rows)
    assert again.at_rest(1) == rows
    states.update(header(2, epoch=1, transactional=True), 13)
    assert states.kept.at_rest(1) is None
    marker(states, 14, epoch=1)
    assert states.kept.at_rest(1) is None, "its marker is not behind the high watermark"
    assert states.last_stable_offset(Offset(14)) == 13
    assert states.last_stable_offset(Offset(15)) == 15
    assert states.kept.at_rest(1) is not None


def test_a_batch_is_known_if_it_ends_where_the_last_one_does_or_before() -> None:
    states = ProducerStates()
    states.update(header(0, 2, epoch=1), 10)
    knows = states.kept.knows
    assert knows(header(0, 2, epoch=1, base=10))
    assert not knows(header(0, 2, epoch=1, base=11))
    assert knows(header(-1, 1, epoch=1, base=50)), "it has no sequence"
    assert not knows(header(0, 1, epoch=1, base=12))
    assert knows(header(0, 1, epoch=0, base=99))
    assert not knows(header(0, 1, epoch=2, base=0))
    states.update(header(2, epoch=1), 12)
    assert states.kept.last_offset == 12, "that of the last batch"
    assert knows(header(2, epoch=1, base=12))


def test_only_the_last_five_batches_without_a_gap_are_put_back() -> None:
    states = ProducerStates()
    states.update(header(6), 60)
    kept = states.kept
    kept.remember(7, [header(at, base=10 * at) for at in range(6)])
    assert [batch.first_sequence for batch in kept.producers[7].batches] == [6], "not up to it"
    kept.remember(7, [header(at, base=10 * at) for at in range(7)])
    assert [batch.first_sequence for batch in kept.producers[7].batches] == [2, 3, 4, 5, 6]
    kept.remember(7, [header(at, base=10 * at) for at in (2, 4, 5, 6)])
    assert [batch.first_sequence for batch in kept.producers[7].batches] == [4, 5, 6]
    kept.remember(7, [header(5, base=50, epoch=1), header(6, base=60)])
    assert [batch.base_offset for batch in kept.producers[7].batches] == [60]
    kept.remember(8, [header(0)])
    assert 8 not in kept.producers
    states.update(header(TOP, 2), 70)
    kept.remember(7, [header(TOP - 1, base=69), header(TOP, 2, base=70)])
    ends = [(batch.first_sequence, batch.last_sequence) for batch in kept.producers[7].batches]
    assert ends == [(TOP - 1, TOP - 1), (TOP, 0)]


def test_a_sequence_goes_on_behind_the_last_one_and_begins_anew_with_an_epoch() -> None:
    states = ProducerStates()
    assert states.check(header(99), 0) is None, "who is not known may begin anywhere"
    for at in range(6):
        states.update(header(at, epoch=1), 10 + at)
    first = states.check(header(1, epoch=1), 0)
    assert first is not None
    assert (first.base_offset, first.last_offset, first.timestamp) == (11, 11, 1000)
    for sequence, epoch, code in (
        (0, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (5, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (7, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        with pytest.raises(ApiError) as error:
            states.check(header(sequence, epoch=epoch), 0)
        assert error.value.code is code
    assert states.check(header(6, epoch=1), 0) is None
    assert states.check(header(0, epoch=2), 0) is None
    with pytest.raises(ApiError):
        states.check(header(5, 2, epoch=1), 0)


def test_a_coordinator_is_refused_once_a_later_one_has_written() -> None:
    states = ProducerStates()
    states.check_epoch(7, 0)
    assert states.coordinator_epoch(7) == -1
    states.update(header(0, epoch=4, transactional=True), 0)
    assert states.open_transaction(7) == 0
    assert states.is_open(7, 4)
    assert not states.is_open(7, 3)
    assert states.first_unstable_offset() == 0
    marker(states, 1, epoch=4, coordinator_epoch=3)
    assert (states.coordinator_epoch(7), states.open_transaction(7)) == (3, None)
    marker(states, 2, epoch=4, coordinator_epoch=2)
    assert states.coordinator_epoch(7) == 3
    states.check_epoch(7, 4, 3)
    states.check_epoch(7, 5)
    for epoch, coordinator, code in (
        (3, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ApiError) as error:
            states.check_epoch(7, epoch, coordinator)
        assert error.value.code is code


def test_a_transaction_begins_only_where_its_coordinator_said_so() -> None:
    states = ProducerStates()
    for begins, sequence, code in (
        (Begins.NO, 0, ErrorCode.INVALID_TXN_STATE),
        (Begins.FRESH, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        with pytest.raises(ApiError) as error:
            states.check_transactional(header(sequence, transactional=True), begins)
        assert error.value.code is code
    states.check_transactional(header(1, transactional=True), Begins.VERIFIED)
    states.check_transactional(header(0, transactional=True), Begins.FRESH)
    states.update(header(0, transactional=True), 0)
    states.check_transactional(header(1, transactional=True), Begins.NO)
    states.update(header(1, transactional=True), 1)
    assert states.open_transaction(7) == 0, "where it began"
    with pytest.raises(ApiError) as error:
        states.check(header(2), 0)
    assert error.value.code is ErrorCode.INVALID_TXN_STATE


def test_who_was_silent_as_long_as_allowed_is_forgotten_but_not_within_a_transaction() -> None:
    states = ProducerStates()
    states.update(header(0), 0, 5000)
    assert states.expire(5099, 100) == 0
    assert states.expire(5100, 100) == 1
    assert len(states) == 0
    states.update(header(0), 0, 10)
    assert states.expire(1099, 100) == 0, "its record is of 1000"
    states.update(header(1, transactional=True), 0)
    assert states.expire(1 << 40, 100) == 0
    assert 7 in states


def test_a_run_of_batches_is_new_up_to_the_first_that_does_not_follow() -> None:
    states = ProducerStates()
    run = [header(0, 2), header(2), header(3)]
    assert states.new_of(run, 0) == 3
    assert states.new_of([*run, header(5)], 0) == 3
    assert states.new_of([run[0], header(2, epoch=1)], 0) == 1
    assert states.new_of([run[0], header(2, transactional=True)], 0) == 1
    assert states.new_of([run[0], header(2)._replace(producer_id=8)], 0) == 1
    assert states.new_of([header(TOP - 1), header(TOP), header(0)], 0) == 1
    states.update(header(0, 2), 0)
    assert states.new_of(run, 0) == 0, "it is there already"
    assert states.new_of(run[1:], 0) == 2
    assert states.new_of([header(4)], 0) == 0
    assert states.new_of([header(2, transactional=True)], 0) == 0
    none = [made._replace(producer_id=0) for made in (header(0), header(5))]
    assert states.new_of(none, 0) == 1, "0 is a producer too"
    plain = header(-1)._replace(producer_id=-1)
    assert states.new_of([plain, plain, header(2)], 0) == 2


def test_an_abort_is_stable_up_to_the_first_transaction_of_another_that_is_open() -> None:
    states = ProducerStates()
    abort = wire.ControlMarker(wire.ControlType.ABORT, 3)
    assert states.aborted_by(header(-1), abort, Offset(9)) is None
    states.update(header(0, transactional=True), 4)
    alone = states.aborted_by(header(-1), abort, Offset(9))
    assert alone == (7, 4, 9, 10)
    states.update(header(0, transactional=True)._replace(producer_id=8), 6)
    beside = states.aborted_by(header(-1), abort, Offset(9))
    assert beside == (7, 4, 9, 6)
    commit = wire.ControlMarker(wire.ControlType.COMMIT, 3)
    assert states.aborted_by(header(-1), commit, Offset(9)) is None
