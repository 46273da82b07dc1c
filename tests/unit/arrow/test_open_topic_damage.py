"""`headrace.arrow.open` over damaged files: what it returns, and where it says the fault is."""

from pathlib import Path

import pytest

import headrace.arrow
from headrace.log.segment.scan import BadBatch
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from tests.support.client.open_topic import fill, logs_of, poured, values
from tests.support.log.log import World, append


@pytest.mark.parametrize("tail", [b"\0" * 200, b"\xff" * 200, b"half", None])
def test_a_torn_tail_is_not_returned_and_no_error(
    world: World, tmp_path: Path, tail: bytes | None
) -> None:
    wanted = fill(world, 4)
    append(world.log(), b"torn")
    directory = poured(world, tmp_path)
    last = logs_of(directory)[-1]
    content = last.read_bytes()
    last.write_bytes(content[:-20] if tail is None else content + tail)
    assert values(headrace.arrow.open(directory, "t")) == wanted


def test_a_flipped_byte_is_an_error_with_file_and_position(world: World, tmp_path: Path) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    path = logs_of(directory)[1]
    content = bytearray(path.read_bytes())
    size = wire.size_of(wire.parse_header(content))
    content[size + 80] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadBatch, match=rf"{path.name} at byte {size}: .*checksum") as caught:
        headrace.arrow.open(directory, "t").read_all()
    assert caught.value.position == size


@pytest.mark.parametrize("wrong", [1 << 40, 0])
def test_a_flipped_base_offset_is_an_error_for_no_checksum_covers_it(
    world: World, tmp_path: Path, wrong: int
) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    for path in logs_of(directory)[1], logs_of(directory)[-1]:
        sound = path.read_bytes()
        at = wire.size_of(wire.parse_header(sound))
        path.write_bytes(sound[:at] + wrong.to_bytes(8, "big") + sound[at + 8 :])
        with pytest.raises(BadBatch, match=rf"{path.name} at byte {at}: .*offset"):
            headrace.arrow.open(directory, "t").read_all()
        path.write_bytes(sound)


@pytest.mark.parametrize("cut", [1, 100, 10_000])
def test_a_file_that_ends_before_what_was_flushed_is_an_error(
    world: World, tmp_path: Path, cut: int
) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    path = logs_of(directory)[-1]
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(BadBatch, match=path.name):
        headrace.arrow.open(directory, "t").read_all()


@pytest.mark.parametrize("damage", ["none", "gone", "garbage", "zeros", "lying"])
def test_ranges_of_offsets_are_found_whatever_the_index_says(
    world: World, tmp_path: Path, damage: str
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    for index in [*directory.glob("t-0/*.index"), *directory.glob("t-0/*.timeindex")]:
        if damage == "gone":
            index.unlink()
        elif damage != "none":
            lies = (1).to_bytes(4, "big") + (77).to_bytes(4, "big")
            index.write_bytes({"garbage": b"\x7f" * 99, "zeros": bytes(64), "lying": lies}[damage])
    for start, end in [(0, 60), (17, 43), (59, 60), (None, 5), (31, None), (60, None), (7, 7)]:
        found = values(headrace.arrow.open(directory, "t", offsets=(start, end)))
        assert found == wanted[slice(start, end)], (start, end)
    assert values(headrace.arrow.open(directory, "t", offsets=(50, 1000))) == wanted[50:]
    assert values(headrace.arrow.open(directory, "t", offsets={0: (58, None)})) == wanted[58:]


def test_an_error_of_one_thread_is_the_readers(world: World, tmp_path: Path) -> None:
    for number in range(3):
        fill(world, 20, TopicPartition("t", number))
    directory = poured(world, tmp_path)
    path = max((directory / "t-1").glob("*.log"))
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(CorruptLogError):
        headrace.arrow.open(directory, "t", threads=2, batch_rows=2).read_all()
