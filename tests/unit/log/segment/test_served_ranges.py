"""Whole batches as ranges of their file: where they end, and that each is looked at once."""

import os
import struct
from itertools import pairwise

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.segment.scan import BadBatch, NotCached
from headrace.log.segment.served_ranges import (
    COLD_BYTES,
    RANGE_BYTES_MIN,
    BatchRange,
    Stretch,
    stretch_from,
)
from headrace.model.nouns import Offset
from headrace.ports.disk import Buffer
from headrace.ports.file_ranges import RangeLost
from tests.support.log.log import World, append, content, truncate_to

RECORDS = 30


def filled() -> tuple[World, Log]:
    world = World(config=LogConfig(index_interval_bytes=300))
    log = world.log()
    for number in range(RECORDS):
        append(log, b"%02d" % number * (20 + number))
    world.flush(log)
    log.segments[0].sound.lost(0, log.segments[0].size)
    return world, log


def stretch(
    log: Log,
    position: int,
    max_bytes: int,
    *,
    below: int = RECORDS,
    at_least_one: bool = False,
    limit: int = RECORDS,
) -> Stretch | None:
    segment = log.segments[0]
    return stretch_from(
        segment, position, max_bytes, Offset(below), Offset(limit), at_least_one, segment.file.read
    )


def indexed(log: Log) -> list[tuple[int, int]]:
    """Offset and position of each batch that the index knows."""
    found = log.segments[0].index.entries()
    assert len(found) > 5
    return [(int(offset), int(position)) for offset, position in found]


# --- where they end -------------------------------------------------------------------------------


def test_a_stretch_ends_at_the_last_indexed_batch_that_fits() -> None:
    world, log = filled()
    entries = indexed(log)
    for (_, before), (offset, position) in pairwise(entries):
        assert stretch(log, 0, position) == (0, position, offset)
        shorter = stretch(log, 0, position - 1)
        assert shorter is not None
        assert shorter.end == before
        assert stretch(log, before, position - before) == (before, position, offset)
        assert stretch(log, before, position - before - 1) is None
        one = stretch(log, before, 1, at_least_one=True)
        assert one == (before, position, offset)
    world.close()


def test_a_stretch_holds_nothing_at_or_above_the_bound() -> None:
    world, log = filled()
    (_, first), (second_offset, second) = indexed(log)[1:3]
    whole = log.segments[0].size
    assert stretch(log, 0, whole, below=second_offset) == (0, second, second_offset)
    assert stretch(log, 0, whole, below=second_offset - 1) == (0, first, indexed(log)[1][0])
    one = stretch(log, first, 1, below=second_offset, at_least_one=True)
    assert one == (first, second, second_offset)
    assert stretch(log, first, 1, below=second_offset - 1, at_least_one=True) is None
    world.close()


def test_a_stretch_to_the_segments_end_is_all_there_is() -> None:
    world, log = filled()
    size = log.segments[0].size
    last_offset, last = indexed(log)[-1]
    assert stretch(log, 0, size) == (0, size, RECORDS)
    assert stretch(log, 0, size - 1) == (0, last, last_offset)
    assert stretch(log, 0, size, below=RECORDS - 1) == (0, last, last_offset)
    assert stretch(log, last, size) == (last, size, RECORDS)
    assert stretch(log, last, 1, at_least_one=True) is None, "the index knows of no end"
    world.close()


def test_an_index_that_is_another_segments_names_no_end() -> None:
    world, log = filled()
    segment = log.segments[0]
    position = indexed(log)[2][1]

    def found(header: Buffer | None) -> Stretch | None:
        return stretch_from(
            segment, 0, position, Offset(RECORDS), Offset(RECORDS), False, lambda _, __: header
        )

    good = bytearray(segment.file.read(position, 61))
    assert found(good) is not None
    other = bytearray(good)
    struct.pack_into(">q", other, 0, 1)
    old = bytearray(good)
    old[16] = 1
    assert [found(bad) for bad in (other, old, good[:60], b"")] == [None] * 4
    with pytest.raises(NotCached):
        found(None)
    world.close()


# --- on their way ---------------------------------------------------------------------------------


def place_of(log: Log, offset: int) -> int:
    """Where the batch with `offset` begins."""
    found = log.segments[0].find(Offset(offset), log.segments[0].file.read)
    assert found is not None
    return found[0]


def a_range(world: World, log: Log, first: int = 0) -> BatchRange:
    """All batches from number `first` on."""
    segment = log.segments[0]
    found = Stretch(place_of(log, first), segment.size, Offset(RECORDS))
    return BatchRange(log, log.damage, world.disk, segment, found, Offset(first))


def take_all(world: World, found: BatchRange, piece: int) -> bytes:
    """All bytes, taken `piece` at a time, read on from the disk where nothing is cached."""
    out = b""
    while found.left > 0:
        into = memoryview(bytearray(piece))
        got = found.take(into)
        out += into[:got]
        if not got:
            heard: list[bool] = []
            found.fetch(lambda: heard.append(True))  # noqa: B023 - called right below
            world.disk.settle()
            assert heard == [True]
    return out


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("piece", [61, 62, 100, 131, 333, 1000, 1 << 20])
def test_bytes_arrive_as_they_lie_in_the_file_whatever_the_pieces(piece: int, cold: bool) -> None:
    world, log = filled()
    world.disk.cold = cold
    wanted = content(world.disk, log.segments[0].path(file_names.LOG))
    found = a_range(world, log)
    assert (len(found), found.left, found.sendable) == (len(wanted), len(wanted), False)
    assert take_all(world, found, piece) == wanted
    assert (len(found), found.left) == (len(wanted), 0)
    assert log.segments[0].sound.covers(0, len(wanted)), "it need not be looked at again"
    assert a_range(world, log).sendable
    world.close()


@pytest.mark.parametrize("first", [1, 7, 8])
def test_a_range_begins_with_the_batch_that_was_asked_for(first: int) -> None:
    world, log = filled()
    found = a_range(world, log, first)
    data = take_all(world, found, 200)
    assert struct.unpack_from(">q", data) == (first,)
    assert content(world.disk, log.segments[0].path(file_names.LOG)).endswith(data)
    world.close()


@pytest.mark.parametrize("piece", [61, 100, 1000, 1 << 20])
@pytest.mark.parametrize("byte", [70, 16, 23, 3])
def test_no_byte_of_a_damaged_batch_completes_it(piece: int, byte: int) -> None:
    world, log = filled()
    segment = log.segments[0]
    bad = place_of(log, 11)
    wanted = content(world.disk, segment.path(file_names.LOG))
    size = struct.unpack_from(">i", wanted, bad + 8)[0] + 12
    world.disk.flip(segment.path(file_names.LOG), bad + byte)
    found = a_range(world, log)
    with pytest.raises(BadBatch) as caught:
        take_all(world, found, piece)
    assert caught.value.position == bad
    assert found.left > segment.size - bad - size
    assert segment.suspect
    assert not segment.sound.covers(0, 1)
    assert world.directory.context.damaged == 1
    world.close()


@pytest.mark.parametrize("piece", [50, 97, 300, 1000])
def test_what_leaves_the_page_cache_on_the_way_is_looked_at_from_its_batch_on(piece: int) -> None:
    world, log = filled()
    wanted = content(world.disk, log.segments[0].path(file_names.LOG))
    assert take_all(world, a_range(world, log), 1000) == wanted
    for after in range(1, len(wanted) // piece, 2):
        log.segments[0].sound.add(0, len(wanted))
        found = a_range(world, log)
        assert found.sendable
        out = b""
        for _ in range(after):
            into = memoryview(bytearray(piece))
            got = found.take(into)
            out += into[:got]
        assert out == wanted[: after * piece]
        world.disk.cold = True
        rest = take_all(world, found, max(piece, 61))
        world.disk.cold = False
        assert out + rest == wanted, after
        assert not found.sendable
    world.close()


def test_known_bytes_go_past_the_process_to_the_last_one_and_others_do_not() -> None:
    world, log = filled()
    wanted = content(world.disk, log.segments[0].path(file_names.LOG))
    reads, writes = os.pipe()
    try:
        assert a_range(world, log).send(writes, 100) is None
        take_all(world, a_range(world, log), 1000)
        found = a_range(world, log)
        assert found.send(writes, 100) == 100
        assert found.send(writes, 1 << 20) == len(wanted) - 100
        assert found.left == 0
        assert os.read(reads, 1 << 20) == wanted
        found = a_range(world, log)
        world.disk.cold = True
        assert found.send(writes, 100) is None
        assert not log.segments[0].sound.covers(0, 1), "it left the page cache"
    finally:
        os.close(reads)
        os.close(writes)
    world.close()


def test_a_log_that_is_cut_meanwhile_ends_the_answer() -> None:
    world, log = filled()
    found = a_range(world, log)
    found.take(memoryview(bytearray(500)))
    truncate_to(log, Offset(20))
    with pytest.raises(RangeLost, match="was truncated"):
        found.take(memoryview(bytearray(500)))
    with pytest.raises(RangeLost, match="was truncated"):
        found.send(0, 1)
    world.close()


def test_a_file_shorter_than_what_was_appended_is_damage() -> None:
    world, log = filled()
    segment = log.segments[0]
    at = place_of(log, 15)
    found = a_range(world, log)
    segment.file.truncate(at)
    world.disk.cold = True
    with pytest.raises(BadBatch, match="shorter"):
        take_all(world, found, 1000)
    assert world.directory.context.damaged == 1
    assert (RANGE_BYTES_MIN, COLD_BYTES) == (131_072, 1_048_576)
    world.close()
