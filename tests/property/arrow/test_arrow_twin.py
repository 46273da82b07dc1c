"""The numba kernel and its pure-Python twin do the same, on sound bytes and on damaged ones."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.arrow.read.columns import COLUMNS, Buffers
from headrace.arrow.read.decode import PartitionDecoder
from headrace.kernels.choose import DecodeRecords, records_decoder_named
from headrace.kernels.layout import BATCH_SLOTS, INT64_MAX, INT64_MIN, Outcome, Slot
from headrace.record.batch import Codec, Record, TimestampType, build, iterate
from headrace.record.batch_layout import HEADER_BYTES

if TYPE_CHECKING:
    from headrace.record.compression import CorruptBatch

pytest.importorskip("numba")

KERNEL, TWIN = records_decoder_named("numba"), records_decoder_named("python")
GUARD = 64
"""Bytes behind every output buffer that no decoder may touch."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before examples are timed."""
    list(PartitionDecoder("t", 0, offset_from=0).feed(build([Record(0, 0, b"", b"")])))


Sizes = tuple[int, int, int, int]
Columns = tuple[str, ...]
Array = np.ndarray[Any, Any]

blobs = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=120, max_size=140))
header_lists = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3
)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    count = draw(st.integers(1, 12))
    offset = 0
    made: list[Record] = []
    for _ in range(count):
        offset += draw(st.integers(1, 3))
        time = draw(st.integers(-1, 2**41))
        made.append(Record(offset, time, draw(blobs), draw(blobs), tuple(draw(header_lists))))
    return made


def payload(records: list[Record]) -> tuple[bytes, int, int, int]:
    """Record bytes, count, last delta and base time of these records in one batch."""
    batch = build(records, base_offset=0, keep_offsets=True)
    _, header = next(iter(iterate(batch)))
    return batch[HEADER_BYTES:], len(records), header.last_offset_delta, header.base_timestamp


def guarded(buffers: Buffers) -> list[Array]:
    """The same buffers, each a window of a larger array whose ends are watched."""
    whole = []
    windows = []
    for array in buffers.outs:
        room = np.zeros(len(array) + 2 * GUARD, array.dtype)
        room[:] = 0xA5 if array.dtype == np.uint8 else 0
        room[GUARD : GUARD + len(array)] = array
        whole.append(room)
        windows.append(room[GUARD : GUARD + len(array)])
    buffers.outs = tuple(windows)
    return whole


def run(
    decode: DecodeRecords, source: bytes, slots: list[int], sizes: Sizes, columns: Columns
) -> tuple[Any, ...]:
    """One call: its outcome, state and (where it is sound) buffers."""
    buffers = Buffers(*sizes, columns)
    for array in buffers.outs:
        if array.dtype == np.uint8:
            array[:] = 0xFF
        else:
            array[:] = 0
    whole = guarded(buffers)
    before = [(room[:GUARD].copy(), room[-GUARD:].copy()) for room in whole]
    buffers.state[:BATCH_SLOTS] = slots
    array = np.frombuffer(source, np.uint8)
    array.setflags(write=False)
    outcome = Outcome(decode(array, buffers.state, *buffers.outs))
    for room, (head, tail) in zip(whole, before, strict=True):
        assert (room[:GUARD] == head).all(), "wrote before a buffer"
        assert (room[-GUARD:] == tail).all(), "wrote past a buffer"
    if outcome < 0:
        return (outcome,)
    # The kernel copies in strides: what lies behind the bytes in use is nobody's.
    used = {3: buffers.state[Slot.KEY_BYTES], 6: buffers.state[Slot.VALUE_BYTES]}
    contents = [array[: used.get(at)].tolist() for at, array in enumerate(buffers.outs)]
    return outcome, buffers.state.tolist(), contents


sizes = st.tuples(st.integers(1, 14), st.integers(1, 300), st.integers(1, 300), st.integers(1, 40))
column_choices = st.sampled_from(
    [COLUMNS, (*COLUMNS, "headers"), ("value",), ("key", "headers"), ("offset",)]
)


@given(record_lists(), sizes, column_choices, st.integers(0, 20), st.integers(0, 40), st.booleans())
def test_kernel_and_twin_fill_the_same_buffers(
    records: list[Record], sizes: Sizes, columns: Columns, first: int, until: int, fixed: bool
) -> None:
    source, count, last, base_time = payload(records)
    slots = [0, len(source), count, 0, last, -1, base_time, int(fixed), first, until]
    assert run(KERNEL, source, slots, sizes, columns) == run(TWIN, source, slots, sizes, columns)


damage = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)


@settings(max_examples=500)
@given(record_lists(), sizes, column_choices, damage, st.integers(-40, 40), st.integers(-3, 3))
def test_damaged_bytes_end_alike_and_never_leave_the_buffers(
    records: list[Record],
    sizes: Sizes,
    columns: Columns,
    flips: list[tuple[int, int]],
    cut: int,
    miscount: int,
) -> None:
    source, count, last, base_time = payload(records)
    torn = bytearray(source)
    for at, byte in flips:
        torn[at % len(torn)] = byte
    end = max(0, len(torn) + min(cut, 0))
    slots = [0, end, count + miscount, 0, last, -1, base_time, 0, 0, INT64_MAX]
    source = bytes(torn) + bytes(max(cut, 0))
    assert run(KERNEL, source, slots, sizes, columns) == run(TWIN, source, slots, sizes, columns)


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 9), st.integers(-2, 70))
def test_noise_ends_alike(noise: bytes, count: int, end: int) -> None:
    slots = [0, end, count, 2**63 - 5, 2**31 - 1, -1, 0, 0, 0, INT64_MAX]
    sizes = (5, 30, 30, 30)
    columns = (*COLUMNS, "headers")
    assert run(KERNEL, noise, slots, sizes, columns) == run(TWIN, noise, slots, sizes, columns)


@given(st.integers(INT64_MIN, INT64_MAX), st.integers(INT64_MIN, INT64_MAX))
def test_far_times_wrap_and_stop_alike(base: int, delta: int) -> None:
    zigzag = ((delta << 1) ^ (delta >> 63)) & (2**64 - 1)
    varlong = bytearray()
    while zigzag > 0x7F:
        varlong.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    varlong.append(zigzag)
    body = b"\0" + bytes(varlong) + b"\0\x01\x01\0"
    source = bytes([len(body) << 1]) + body
    slots = [0, len(source), 1, 0, 0, -1, base, 0, 0, INT64_MAX]
    sizes = (2, 1, 1, 1)
    ours = run(KERNEL, source, slots, sizes, COLUMNS)
    assert ours == run(TWIN, source, slots, sizes, COLUMNS)
    assert ours[0] is Outcome.DONE
    ms = (base + delta + 2**63) % 2**64 - 2**63
    assert ours[2][1][0] == max(INT64_MIN, min(INT64_MAX, ms * 1000))


@pytest.mark.parametrize("name", ["numba", "python"])
@given(
    lists=st.lists(record_lists(), min_size=1, max_size=4),
    codec=st.sampled_from(list(Codec)),
    rows_max=st.integers(1, 9),
    first=st.integers(0, 60),
    until=st.integers(0, 120),
    kind=st.sampled_from(list(TimestampType)),
)
def test_decoded_rows_are_the_records_written(
    name: str,
    lists: list[list[Record]],
    codec: Codec,
    rows_max: int,
    first: int,
    until: int,
    kind: TimestampType,
) -> None:
    data = b""
    written: list[Record] = []
    base = 0
    for records in lists:
        placed = [record._replace(offset=record.offset + base) for record in records]
        data += build(
            placed, base_offset=base, compression=codec, keep_offsets=True, timestamp_type=kind
        )
        if kind is TimestampType.LOG_APPEND_TIME:
            latest = max(record.timestamp for record in placed)
            placed = [record._replace(timestamp=latest) for record in placed]
        written += placed
        base = placed[-1].offset + 1
    decoder = PartitionDecoder(
        "orders", 3, offset_from=first, offset_until=until, rows_max=rows_max,
        columns=(*COLUMNS, "headers"), decode=records_decoder_named(name),
    )  # fmt: skip
    rows = [row for batch in decoder.feed(data) for row in batch.to_pylist()]
    rows += [row for batch in decoder.flush() for row in batch.to_pylist()]
    assert [
        (
            row["offset"], row["timestamp"].timestamp(), row["key"], row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in rows
    ] == [
        (record.offset, record.timestamp / 1000, record.key, record.value, list(record.headers))
        for record in written
        if first <= record.offset < until
    ]  # fmt: skip
    assert all(row["timestampType"] == kind for row in rows)
    assert all((row["topic"], row["partition"]) == ("orders", 3) for row in rows)


@settings(max_examples=300)
@given(
    st.lists(record_lists(), min_size=1, max_size=3), st.sampled_from(list(Codec)), damage,
    st.booleans(),
)  # fmt: skip
def test_a_damaged_fetch_raises_or_is_stepped_over_whole(
    lists: list[list[Record]], codec: Codec, flips: list[tuple[int, int]], resealed: bool
) -> None:
    """Damage under a right checksum, as a careless producer seals it, is found all the same."""
    torn = bytearray()
    for number, records in enumerate(lists):
        base = number * 1000
        placed = [record._replace(offset=record.offset + base) for record in records]
        torn += build(placed, base_offset=base, compression=codec, keep_offsets=True)
    starts = [at for at, _ in iterate(bytes(torn))]
    for at, byte in flips:
        position = at % len(torn)
        if not any(start <= position < start + HEADER_BYTES for start in starts):
            torn[position] = byte
    if resealed:
        for at, header in iterate(bytes(torn)):
            seal = crc32c(bytes(torn[at + 21 : at + 12 + header.batch_length]))
            torn[at + 17 : at + 21] = seal.to_bytes(4, "big")
    seen = []
    for decode in (KERNEL, TWIN):
        complaints: list[CorruptBatch] = []
        decoder = PartitionDecoder(
            "t", 0, offset_from=0, columns=(*COLUMNS, "headers"), rows_max=5, decode=decode,
            on_corrupt=complaints.append,
        )  # fmt: skip
        rows = [row for batch in decoder.feed(bytes(torn)) for row in batch.to_pylist()]
        rows += [row for batch in decoder.flush() for row in batch.to_pylist()]
        seen.append((rows, [str(complaint) for complaint in complaints]))
    assert seen[0] == seen[1]
