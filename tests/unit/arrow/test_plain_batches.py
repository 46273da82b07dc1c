"""Plain batches decoded in one call give what a walk batch by batch does; others are left to it."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from headrace.arrow.read.aborted_transactions import Aborted
from headrace.arrow.read.columns import COLUMNS, HEADERS
from headrace.arrow.read.decode import PartitionDecoder
from headrace.arrow.read.plain_batches import plain_batch_decoder
from headrace.record.batch import Codec, ControlType, Record, build, build_marker, stamp
from headrace.record.compression import CorruptBatch

pytest.importorskip("numba")
if plain_batch_decoder() is None:
    pytest.skip("no kernel for this processor", allow_module_level=True)

ALL = (*COLUMNS, HEADERS)


def batch_of(dice: random.Random, base: int, codec: Codec, **how: Any) -> bytes:
    """One batch of random records, now tiny, now larger than a block of lz4."""
    size = dice.choice([0, 5, 100, 700, 9000])
    records = [
        Record(
            0, 1_780_000_000_000 + dice.randrange(10**6),
            dice.choice([None, b"", dice.randbytes(dice.randrange(40))]),
            dice.choice([None, b"", b"v" * size, dice.randbytes(size)]),
            tuple((f"h{at}", dice.choice([None, b"x"])) for at in range(dice.choice([0, 0, 2]))),
        )
        for _ in range(dice.choice([1, 3, 130]))
    ]  # fmt: skip
    made = bytearray(build(records, compression=codec, **how))
    stamp(made, base, 0)
    return bytes(made)


def log_of(dice: random.Random, codecs: list[Codec]) -> tuple[bytes, int]:
    parts: list[bytes] = []
    base = 0
    for _ in range(40):
        made = batch_of(dice, base, dice.choice(codecs))
        parts.append(made)
        base += int.from_bytes(made[23:27], "big") + 1 + dice.choice([0, 0, 3])
    return b"".join(parts), base


def decoded(
    data: bytes, *, fast: bool, aborted: Aborted = (), cut: int = 1 << 30, **how: Any
) -> pa.Table:
    limits: tuple[int, int] | None = how.pop("limits", None)
    arguments: dict[str, Any] = {"offset_from": 0, "columns": ALL} | how
    decoder = PartitionDecoder("t", 0, **arguments)
    decoder.limits = limits
    if not fast:
        decoder._plain = None

    def batches() -> Iterator[pa.RecordBatch]:
        at = 0
        while at < len(data) and not decoder.done:
            yield from decoder.feed(data[at : at + cut], aborted)
            if not decoder.consumed:
                break
            at += decoder.consumed
        yield from decoder.flush()

    table = pa.Table.from_batches(list(batches()), decoder._assembler.schema)
    table.validate(full=True)
    return table


@pytest.mark.parametrize("seed", range(12))
def test_the_rows_are_those_of_the_walk_batch_by_batch(seed: int) -> None:
    dice = random.Random(seed)
    codecs = [[Codec.LZ4], [Codec.NONE], [Codec.NONE, Codec.LZ4], list(Codec)][seed % 4]
    data, end = log_of(dice, codecs)
    first, until = sorted(dice.sample(range(end + 10), 2))
    for how in (
        {},
        # All are kept, each with the room for its values.
        {"rows_max": dice.choice([1, 7, 100]), "value_bytes": 64 << 10},
        {"offset_from": first, "offset_until": until},
        {"cut": 1_300_000, "limits": (0, end)},
    ):
        assert decoded(data, fast=True, **how).equals(decoded(data, fast=False, **how))


def test_most_of_a_plain_log_goes_through_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = log_of(random.Random(5), [Codec.LZ4, Codec.NONE])
    walked: list[int] = []
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=ALL)
    before = decoder._decode_batch

    def count(*given: Any) -> int:
        walked.append(1)
        return before(*given)

    monkeypatch.setattr(decoder, "_decode_batch", count)
    list(decoder.feed(data))
    assert len(walked) < 20  # frames with stored blocks, and what fills the buffers


def test_transactions_and_markers_come_out_the_same() -> None:
    dice = random.Random(1)
    parts = []
    base = 0
    for producer in (1, 2, 1, 2, 1):
        how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
        parts.append(batch_of(dice, base, Codec.LZ4, transactional=True, **how))
        base += int.from_bytes(parts[-1][23:27], "big") + 1
        marker = bytearray(
            build_marker(ControlType.ABORT, 0, producer_id=producer, producer_epoch=0, timestamp=0)
        )
        stamp(marker, base, 0)
        parts.append(bytes(marker))
        base += 1
        parts.append(batch_of(dice, base, Codec.LZ4))
        base += int.from_bytes(parts[-1][23:27], "big") + 1
    data = b"".join(parts)
    for aborted in ((), [(1, 0)], [(2, 0), (1, 0)]):
        slow = decoded(data, fast=False, aborted=aborted)
        assert decoded(data, fast=True, aborted=aborted).equals(slow)


def test_every_flipped_byte_is_found_as_by_the_walk() -> None:
    dice = random.Random(3)
    data = b"".join(batch_of(dice, base, Codec.LZ4) for base in (0, 200, 400))
    for _ in range(300):
        at = dice.randrange(len(data))
        flipped = bytearray(data)
        flipped[at] ^= 1 << dice.randrange(8)
        results = []
        for fast in (True, False):
            try:
                results.append(decoded(bytes(flipped), fast=fast, limits=(0, 600)).to_pylist())
            except CorruptBatch as error:
                results.append([str(error)])
        assert results[0] == results[1], f"byte {at}"


def test_a_lying_lz4_block_writes_nothing_beyond_its_room() -> None:
    """With a checksum that is right: only the codec's own checks stand between it and memory."""
    dice = random.Random(9)
    sound = batch_of(dice, 0, Codec.LZ4)
    for _ in range(500):
        lying = bytearray(sound)
        for _ in range(dice.choice([1, 3, 10])):
            lying[dice.randrange(61, len(lying))] = dice.randrange(256)
        lying[17:21] = crc32c(bytes(lying[21:])).to_bytes(4, "big")
        results = []
        for fast in (True, False):
            try:
                results.append(decoded(bytes(lying), fast=fast).num_rows)
            except CorruptBatch:
                results.append(-1)
        assert results[0] == results[1] or results[1] == -1
