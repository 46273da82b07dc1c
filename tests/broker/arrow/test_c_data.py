"""RecordBatches lent by the C data interface: what keeps their memory, and for how long."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from headrace.arrow.read.assemble import Assembler
from headrace.arrow.read.columns import COLUMNS, HEADERS, Buffers, Pool, schema
from headrace.arrow.read.decode import PartitionDecoder
from headrace.kernels.layout import Slot
from headrace.record.batch import Record, build, new_record
from headrace.record.batch_layout import CRC_FROM
from headrace.record.crc32c import crc32c

ALL = (*COLUMNS, HEADERS)


def pool_and_lender(columns: Sequence[str] = COLUMNS) -> tuple[Pool, Callable[[Buffers], pa.Array]]:
    pool = Pool(8, 64, 64, 64, columns=columns)
    assembler = Assembler("t", 3, 8, columns)

    def lend(buffers: Buffers) -> pa.RecordBatch:
        buffers.state[Slot.ROWS] = 8
        buffers.offsets[:] = range(8)
        return assembler.assemble(buffers, 0)

    return pool, lend


def decoded(record: Record, columns: Sequence[str] = ALL, base: int = 0) -> pa.RecordBatch:
    decoder = PartitionDecoder("t", 3, offset_from=base, columns=columns, rows_max=4)
    assert list(decoder.feed(build([record], base_offset=base))) == []
    (batch,) = decoder.flush()
    batch.validate(full=True)
    return batch


@pytest.mark.parametrize("name", COLUMNS)
def test_a_set_of_buffers_comes_back_only_when_no_column_refers_to_it(name: str) -> None:
    pool, lend = pool_and_lender()
    first = pool.take()
    column = lend(first).column(name)
    assert pool.take() is not first
    sliced = column.slice(2, 3)
    del column
    assert pool.take() is not first
    del sliced
    assert pool.take() is first


def test_a_set_is_lent_as_either_type_of_time_and_comes_back_from_both() -> None:
    pool, _ = pool_and_lender()
    assembler = Assembler("t", 3, 8, COLUMNS)
    buffers = pool.take()
    buffers.state[Slot.ROWS] = 1
    for kind in (0, 1, 0):
        batch = assembler.assemble(buffers, kind)
        assert batch.column("timestampType").to_pylist() == [kind]
        assert not buffers.idle()
        del batch
        assert buffers.idle()


def test_what_was_lent_outlives_whoever_lent_it() -> None:
    pool, lend = pool_and_lender()
    buffers = pool.take()
    memory = weakref.ref(buffers.offsets)
    column = lend(buffers).column("offset")
    del pool, lend, buffers
    gc.collect()
    assert column.to_pylist() == list(range(8))
    assert memory() is not None
    del column
    gc.collect()
    assert memory() is None, "and is freed with it"


def test_memory_comes_back_from_another_thread() -> None:
    pool, lend = pool_and_lender()
    buffers = pool.take()
    kept = [lend(buffers)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert buffers.idle()


def test_who_reads_one_after_the_other_has_two_sets_go_round() -> None:
    decoder = PartitionDecoder("t", 3, offset_from=0, rows_max=4)
    data = build([new_record(b"k", b"v") for _ in range(40)])
    places = [batch.column("offset").buffers()[1].address for batch in decoder.feed(data)]
    assert len(places) >= 9
    assert len(set(places)) == 2


def test_a_set_with_nulls_says_so_and_the_next_time_has_none() -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=ALL, rows_max=1)
    records = [Record(0, 5, None, None, (("h", None),)), Record(1, 6, b"k", b"v", ())]
    rows, counts = [], []
    for batch in decoder.feed(build(records)):
        batch.validate(full=True)
        rows += batch.to_pylist()
        counts.append([column.null_count for column in batch.columns])
    (last,) = decoder.flush()
    last.validate(full=True)
    rows += last.to_pylist()
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        (None, None, [{"key": "h", "value": None}]),
        (b"k", b"v", None),
    ]
    assert counts == [[1, 1, 0, 0, 0, 0, 0, 0]]
    assert last.column("key").null_count == last.column("value").null_count == 0


def test_header_keys_are_text_whatever_their_bytes_are() -> None:
    plain = decoded(Record(0, 1, b"k", b"v", (("a", b"1"), ("\u00e4\u20ac", b""))))
    assert plain.column(HEADERS).to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "\u00e4\u20ac", "value": b""}]
    ]


def test_a_header_key_that_is_no_text_has_replacement_characters() -> None:
    batch = bytearray(build([Record(0, 1, b"k", b"v", (("\u00e4", b"1"),))]))
    at = batch.index("\u00e4".encode())
    batch[at : at + 2] = b"\xff\xfe"
    batch[17:CRC_FROM] = crc32c(memoryview(batch)[CRC_FROM:]).to_bytes(4, "big")
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=(HEADERS,))
    buffers = decoder.buffers
    assert list(decoder.feed(batch)) == []
    (broken,) = decoder.flush()
    broken.validate(full=True)
    assert broken.column(HEADERS).to_pylist() == [[{"key": "\ufffd\ufffd", "value": b"1"}]]
    assert not buffers.idle()
    del broken
    assert buffers.idle()


@pytest.mark.parametrize("dictionary", [False, True])
def test_the_topic_is_in_each_row(dictionary: bool) -> None:
    decoder = PartitionDecoder(
        "orders", 3, offset_from=0, columns=("topic", "partition"), topic_dictionary=dictionary
    )
    assert list(decoder.feed(build([new_record(b"v")] * 3))) == []
    (batch,) = decoder.flush()
    batch.validate(full=True)
    assert batch.schema == schema(("topic", "partition"), topic_dictionary=dictionary)
    assert batch.to_pylist() == [{"topic": "orders", "partition": 3}] * 3


AT_EXIT = """
import sys, types
import headrace.arrow.read.assemble, headrace.arrow.read.decode as decode
from headrace.record.batch import build, new_record
def batch():
    decoder = decode.PartitionDecoder("t", 0, offset_from=0)
    assert not list(decoder.feed(build([new_record(b"v")])))
    return next(iter(decoder.flush()))
kept = batch()
sys.modules["made_last"] = types.ModuleType("made_last")
sys.modules["made_last"].kept = batch()
sys.kept = batch()
class Cycle: pass
one = Cycle(); one.me = one; one.kept = batch()
import pyarrow
pyarrow.kept = batch()
print("done")
"""


def test_an_interpreter_that_ends_with_record_batches_alive_ends_quietly() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AT_EXIT], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
