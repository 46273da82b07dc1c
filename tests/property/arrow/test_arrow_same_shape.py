"""Runs of records of one shape are decoded as each would be by itself, sound or damaged."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.choose import records_decoder_named
from headrace.kernels.layout import INT64_MAX, Outcome
from headrace.record.batch import Record
from tests.property.arrow.test_arrow_twin import Columns, Sizes, column_choices, payload, run
from tests.support.examples import examples

pytest.importorskip("numba")

KERNEL, TWIN = records_decoder_named("numba"), records_decoder_named("python")


SIZES_OF_KEYS = [None, 0, 1, 16, 40, 63, 64, 130]
SIZES_OF_VALUES = [None, 0, 1, 31, 63, 64, 100, 512, 513, 3000, 8300]
BEHIND = 100
"""Bytes behind the records: a run is taken only as far as there are some."""


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Record], random.Random]:
    """Records in runs of one shape, with here and there one that differs a little."""
    dice = random.Random(draw(st.integers(0, 1 << 32)))
    key_size, value_size = dice.choice(SIZES_OF_KEYS), dice.choice(SIZES_OF_VALUES)
    step, offset, made = dice.choice([1, 1, 1, 40, 9000]), 0, list[Record]()
    for _ in range(draw(st.integers(2, 150))):
        if dice.random() < 0.03:
            key_size = dice.choice(SIZES_OF_KEYS)
        if dice.random() < 0.03:
            value_size = dice.choice(SIZES_OF_VALUES)
        headers = (("h", b"x"),) if dice.random() < 0.01 else ()
        made.append(Record(
            offset, 1_780_000_000_000 + len(made) * step + dice.choice([0, 0, -70]),
            None if key_size is None else dice.randbytes(key_size),
            None if value_size is None else dice.randbytes(value_size), headers,
        ))  # fmt: skip
        offset += 1 if dice.random() < 0.95 else dice.randrange(1, 300)
    return made, dice


sizes = st.tuples(
    st.sampled_from([20, 70, 160]), st.sampled_from([100, 1000, 20_000]),
    st.sampled_from([100, 8000, 200_000, 2_000_000]), st.just(10),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before examples are timed."""
    source, count, last, base_time = payload([Record(0, 0, b"", b"")])
    run(KERNEL, source, [0, len(source), count, 0, last, -1, base_time, 0, 0, 9], (2, 2, 2, 2), ())


@settings(max_examples=examples(150))
@given(runs(), sizes, column_choices, st.booleans(), st.sampled_from([0, 0, 0, 30, 1 << 62]))
def test_runs_of_one_shape_fill_the_same_buffers(
    made: tuple[list[Record], random.Random], sizes: Sizes, columns: Columns, fixed: bool, base: int
) -> None:
    records, dice = made
    source, count, last, base_time = payload(records)
    until = base + last + dice.choice([1, 1, 1, 0, -20])
    first = base + dice.choice([0, 0, 0, 1, 25])
    slots = [0, len(source), count, base, last, -1, base_time, int(fixed), first, until]
    source += dice.randbytes(BEHIND)
    assert run(KERNEL, source, slots, sizes, columns) == run(TWIN, source, slots, sizes, columns)


@settings(max_examples=examples(250))
@given(runs(), sizes, column_choices, st.integers(1, 4), st.integers(-3, 3))
def test_a_damaged_run_ends_alike(
    made: tuple[list[Record], random.Random], sizes: Sizes, columns: Columns, flips: int, wrong: int
) -> None:
    """Lengths are what the damage is after: they are what a run takes for granted."""
    records, dice = made
    source, count, last, base_time = payload(records)
    torn = bytearray(source)
    for _ in range(flips):
        torn[dice.randrange(len(torn))] = dice.choice([0, 1, 2, 0x7F, 0x80, 0xFF, 200])
    slots = [0, len(torn), count + wrong, 0, last, -1, base_time, 0, 0, INT64_MAX]
    source = bytes(torn) + dice.randbytes(BEHIND)
    assert run(KERNEL, source, slots, sizes, columns) == run(TWIN, source, slots, sizes, columns)


@pytest.mark.parametrize("place", range(11))
def test_every_byte_of_a_record_in_a_run_counts(place: int) -> None:
    """Each byte of one record's frame, set to each value: the run may not go on over it."""
    records = [Record(at, 1000 + at, b"k", b"val") for at in range(40)]
    source, count, last, base_time = payload(records)
    size = len(source) // count
    slots = [0, len(source), count, 0, last, -1, base_time, 0, 0, INT64_MAX]
    outcomes = set()
    for byte in range(256):
        torn = bytearray(source + bytes(BEHIND))
        torn[20 * size + place] = byte
        found = [
            run(decode, bytes(torn), slots, (60, 500, 500, 10), ("key", "value", "offset"))
            for decode in (KERNEL, TWIN)
        ]
        assert found[0] == found[1], byte
        outcomes.add(found[0][0])
    assert Outcome.DONE in outcomes


def test_a_run_is_taken_to_the_last_record_of_its_shape() -> None:
    """Asked directly: what comes of a batch does not show which way its records went."""
    from headrace.kernels.same_shape import _take_at

    records = [Record(at, 1000 + at, b"k", b"val") for at in range(60)]
    source, _, last, _ = payload(records)
    array = np.frombuffer(source + bytes(BEHIND), np.uint8)
    rows, data = np.zeros((2, 64), np.int64), np.zeros((2, 500), np.uint8)
    ends = np.zeros((2, 64), np.int32)
    size = len(source) // len(records)
    taken, previous = _take_at(
        array.ctypes.data, size, 5, 1, 7, 3, 59, 0, last, 0, 0, -1,
        rows[0].ctypes.data, rows[1].ctypes.data, ends[0].ctypes.data, data[0].ctypes.data, 0,
        ends[1].ctypes.data, data[1].ctypes.data, 0,
    )  # fmt: skip
    assert (taken, previous) == (59, 59)
    assert rows[0, :59].tolist() == list(range(1, 60))


def test_an_offset_beyond_the_batchs_last_ends_a_run() -> None:
    source, count, _, base_time = payload([Record(at, 1000, b"k", b"val") for at in range(40)])
    slots = [0, len(source), count, 0, 38, -1, base_time, 0, 0, INT64_MAX]
    for decode in (KERNEL, TWIN):
        found = run(decode, source + bytes(BEHIND), slots, (60, 500, 500, 10), ("value",))
        assert found == (Outcome.BAD_OFFSET,)


def test_a_length_of_three_bytes_is_not_taken_for_one_of_two() -> None:
    """Else the attributes, with their highest bit set, would pass for a part of the time."""
    records = [Record(at, 1000 + at, b"k", bytes(8190)) for at in range(6)]
    source, count, last, base_time = payload(records)
    torn, size = bytearray(source), len(source) // count
    for at in range(0, len(torn), size):
        assert torn[at + 1] & 0x80
        assert not torn[at + 3]
        torn[at + 3] = 0x80
    slots = [0, len(torn), count, 0, last, -1, base_time, 0, 0, INT64_MAX]
    source = bytes(torn) + bytes(BEHIND)
    found = [
        run(one, source, slots, (9, 50, 90_000, 9), ("value", "offset", "timestamp"))
        for one in (KERNEL, TWIN)
    ]
    assert found[0] == found[1]
    assert found[0][0] is Outcome.DONE
