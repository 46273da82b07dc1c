"""Our unfolding of lz4 blocks is liblz4's, on sound blocks and on lying ones."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")
lz4_block = pytest.importorskip("lz4.block")

from headrace.kernels.compile_cache import prepare_cache  # noqa: E402

prepare_cache()

from headrace.kernels.lz4_kernel import decompress_block, decompress_two_blocks  # noqa: E402

GUARD = 128
"""Bytes around the output that nobody may touch."""
ROOM = 1 << 17


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before examples are timed."""
    block = lz4_block.compress(b"x", store_size=False)
    unfolded(block, 8)
    source, out = np.frombuffer(block + block, np.uint8), np.empty(16, np.uint8)
    out.setflags(write=False)
    decompress_two_blocks(source, 0, len(block), len(block), 2 * len(block), out, 8)


def unfolded(block: bytes, room: int, before: bytes = b"", behind: int = 0) -> bytes | None:
    """What `block` unfolds to in `room` bytes; None where it is refused.

    `before` lies before it in the output, bytes of value `behind` after the block itself.
    """
    whole = np.full(len(before) + room + 2 * GUARD, 0xA5, np.uint8)
    out = whole[GUARD:-GUARD]
    out[: len(before)] = np.frombuffer(before, np.uint8)
    source = np.frombuffer(b"\x0f" * GUARD + block + bytes([behind]) * GUARD, np.uint8)
    for array in (out, source):
        array.setflags(write=False)
    end = decompress_block(source, GUARD, GUARD + len(block), out, len(before), 0, len(out))
    assert (whole[:GUARD] == 0xA5).all(), "wrote before the output"
    assert (whole[-GUARD:] == 0xA5).all(), "wrote past the output"
    assert out[: len(before)].tobytes() == before, "wrote to what was there"
    assert end <= len(out)
    return None if end < 0 else out[len(before) : end].tobytes()


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Bytes that lz4 makes all kinds of sequences of: near and far, short and very long ones."""
    dice = random.Random(draw(st.integers(0, 1 << 32)))
    words = [dice.randbytes(dice.choice([1, 2, 5, 9, 20, 33, 70])) for _ in range(12)]
    parts: list[bytes] = []
    for _ in range(draw(st.integers(0, 120))):
        kind = dice.randrange(6)
        if kind == 0:
            parts.append(dice.randbytes(dice.choice([1, 3, 14, 15, 16, 40, 269, 270, 300])))
        elif kind == 1:
            parts.append(dice.choice(words) * dice.choice([1, 2, 30]))
        elif kind == 2:
            parts.append(bytes(dice.choice([4, 18, 19, 64, 65, 273, 274, 600])))
        else:
            parts.append(dice.choice(words))
    return b"".join(parts)


@settings(max_examples=400)
@given(contents(), st.integers(0, 200))
def test_a_block_unfolds_to_what_was_packed_in_exactly_its_room(data: bytes, spare: int) -> None:
    block = lz4_block.compress(data, store_size=False)
    assert unfolded(block, len(data) + spare) == data
    assert unfolded(block, len(data)) == data


@given(contents(), st.integers(1, 100))
def test_a_block_that_has_too_little_room_is_refused(data: bytes, missing: int) -> None:
    block = lz4_block.compress(data, store_size=False)
    if missing <= len(data):
        assert unfolded(block, len(data) - missing) is None


@given(contents(), contents())
def test_a_block_refers_to_what_lies_before_it(data: bytes, before: bytes) -> None:
    before = before[-60_000:]
    block = lz4_block.compress(data, store_size=False, dict=before)
    assert unfolded(block, len(data) + 99, before) == data


@settings(max_examples=1500)
@given(
    contents(), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=4),
    st.integers(-30, 0), st.sampled_from([0, 100, 5000, ROOM]),
)  # fmt: skip
def test_a_lying_block_is_refused_or_unfolds_as_by_liblz4(
    data: bytes, lies: list[tuple[int, int]], cut: int, room: int
) -> None:
    block = bytearray(lz4_block.compress(data, store_size=False))
    for at, byte in lies:
        block[at % len(block)] = byte
    block = block[: max(len(block) + cut, 0)]
    found = unfolded(bytes(block), room)
    assert unfolded(bytes(block), room, behind=0xFF) == found, "read past the block"
    if found is not None:
        assert found == lz4_block.decompress(bytes(block), uncompressed_size=2 * ROOM)


@settings(max_examples=500)
@given(st.binary(max_size=80), st.sampled_from([0, 20, 300, ROOM]))
def test_noise_is_refused_or_unfolds_as_by_liblz4(noise: bytes, room: int) -> None:
    found = unfolded(noise, room)
    if found is not None:
        assert found == lz4_block.decompress(noise, uncompressed_size=2 * ROOM)


@settings(max_examples=600)
@given(
    st.tuples(contents(), contents()),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
    st.sampled_from([300, 5000, ROOM]),
)
def test_two_blocks_side_by_side_end_as_each_by_itself(
    data: tuple[bytes, bytes], lies: list[tuple[int, int]], room: int
) -> None:
    first, second = (bytearray(lz4_block.compress(one, store_size=False)) for one in data)
    for at, byte in lies:
        first[at % len(first)] = second[at % len(second)] = byte
    whole = np.full(2 * room + 2 * GUARD, 0xA5, np.uint8)
    out = whole[GUARD:-GUARD]
    source = np.frombuffer(bytes(first + second), np.uint8)
    for array in (out, source):
        array.setflags(write=False)
    ends = decompress_two_blocks(source, 0, len(first), len(first), len(first + second), out, room)
    assert (whole[:GUARD] == 0xA5).all(), "wrote before the output"
    assert (whole[-GUARD:] == 0xA5).all(), "wrote past the output"
    found = [
        None if end < 0 else out[begin:end].tobytes()
        for begin, end in zip((0, room), ends, strict=True)
    ]
    assert found == [unfolded(bytes(one), room) for one in (first, second)]
