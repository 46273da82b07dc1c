"""A batch's row in a dump: what its header says, in words."""

from headrace.logtools.dump.batches import dump_batches
from headrace.record import batch as wire

SEQUENCE_MAX = (1 << 31) - 1


def row_of(data: bytes) -> dict[str, object]:
    (row,) = dump_batches("x.log", len(data), lambda at, n: data[at : at + n], records=False)
    return dict(row)


def test_sequences_that_wrap_end_behind_0() -> None:
    records = [wire.new_record(b"x")] * 4
    row = row_of(
        wire.build(records, producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1)
    )
    assert (row["base_sequence"], row["last_sequence"]) == (SEQUENCE_MAX - 1, 1)
    row = row_of(wire.build(records))
    assert (row["base_sequence"], row["last_sequence"]) == (-1, -1)


def test_whose_time_it_is_is_said() -> None:
    for kind, word in (
        (wire.TimestampType.CREATE_TIME, "CreateTime"),
        (wire.TimestampType.LOG_APPEND_TIME, "LogAppendTime"),
    ):
        row = row_of(wire.build([wire.new_record(b"x")], timestamp_type=kind))
        assert row["timestamp_type"] == word


def test_a_batch_has_its_first_and_its_last_offset_and_how_many_records_it_holds() -> None:
    records = [wire.new_record(b"x")] * 4
    row = row_of(wire.build(records, base_offset=70))
    assert (row["base_offset"], row["last_offset"], row["count"]) == (70, 73, 4)
    sparse = [wire.Record(offset, 1, None, b"x", ()) for offset in (70, 75)]
    row = row_of(wire.build(sparse, base_offset=70, keep_offsets=True))
    assert (row["base_offset"], row["last_offset"], row["count"]) == (70, 75, 2)
