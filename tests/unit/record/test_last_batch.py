"""The last whole batch is the one that going through all of them ends with."""

import pytest

from headrace.record import batch
from headrace.record.batch import Record
from headrace.record.compression import CorruptBatch
from headrace.record.last_batch import last_header


def one(base: int, records: int) -> bytearray:
    data = bytearray(batch.build([Record(0, 7, None, b"v")] * records))
    batch.stamp(data, base, 0)
    return data


ROW = bytes(one(0, 2) + one(2, 3) + one(9, 1))


@pytest.mark.parametrize("cut", [*range(0, len(ROW), 7), len(ROW) - 1, len(ROW)])
def test_the_last_whole_batch_is_found(cut: int) -> None:
    every = [header for _, header in batch.iterate(ROW[:cut])]
    assert last_header(ROW[:cut]) == (every[-1] if every else None)


def test_what_is_no_batch_is_refused() -> None:
    bad_length = one(0, 1)
    bad_length[8:12] = bytes(4)
    with pytest.raises(CorruptBatch, match=f"no batch at {len(ROW)}: length 0"):
        last_header(ROW + bytes(bad_length))
    bad_magic = one(0, 1)
    bad_magic[16] = 1
    with pytest.raises(CorruptBatch, match=f"no batch at {len(ROW)}: magic 1"):
        last_header(ROW + bytes(bad_magic))
