"""What is served as a range of a file is what `read` gives, whatever the pieces it is taken in."""

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.config.log_config import LogConfig
from headrace.log import log_reader
from headrace.log.directory.periods import Periods
from headrace.log.log import Log, NeedsDisk, ReadResult
from headrace.log.segment import served_ranges
from headrace.log.segment.served_ranges import BatchRange, Served
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import Offset
from headrace.ports.file_ranges import Part, RangeLost
from headrace.record.batch import iterate
from headrace.record.batch_layout import HEADER_BYTES
from tests.support.examples import examples
from tests.support.log.log import World, append, records_of, truncate_to

LEAST = 150
CONFIG = LogConfig(segment_bytes=9000, index_interval_bytes=300, segment_index_bytes=4096)
LOG_FILE = "/data/t-0/00000000000000000000.log"


@pytest.fixture(scope="module", autouse=True)
def small_ranges() -> Iterator[None]:
    """So that ranges are used for little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "RANGE_BYTES_MIN", LEAST)
        patch.setattr(served_ranges, "COLD_BYTES", 400)
        yield


def filled(sizes: list[int]) -> tuple[World, Log]:
    world = World(config=CONFIG)
    log = world.log()
    for number, size in enumerate(sizes):
        append(log, *[bytes([number % 251]) * size] * (1 + number % 3))
    world.flush(log)
    return world, log


def forget(log: Log) -> None:
    """As after a start: nothing of it has been looked at."""
    for segment in log.segments:
        segment.sound.lost(0, segment.size)


def taken(world: World, data: Part, chance: random.Random, *, freeze: bool = False) -> bytes:
    """All of it, in pieces of any size; the page cache comes and goes if `freeze`."""
    if not isinstance(data, BatchRange):
        return bytes(data)  # type: ignore[arg-type]
    out, expected = b"", data.left
    while data.left:
        world.disk.cold = freeze and chance.random() < 0.3
        if data.sendable and chance.random() < 0.8:
            out += sent(data, chance.randint(1, 900))
            continue
        into = memoryview(bytearray(chance.randint(HEADER_BYTES, 900)))
        got = data.take(into)
        out += into[:got]
        if not got:
            done: list[bool] = []
            data.fetch(lambda done=done: done.append(True))  # type: ignore[misc]
            world.settle()
            assert done == [True]
    world.disk.cold = False
    assert len(out) == expected
    return out


def sent(data: BatchRange, size: int) -> bytes:
    """What went past the process."""
    reads, writes = os.pipe()
    try:
        count = data.send(writes, size)
        return os.read(reads, count) if count else b""
    finally:
        os.close(reads)
        os.close(writes)


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(st.integers(0, 2500), min_size=1, max_size=25),
    seed=st.integers(0, 1 << 30),
)
def test_a_range_is_whole_batches_as_they_were_read(sizes: list[int], seed: int) -> None:
    world, log = filled(sizes)
    chance = random.Random(seed)
    end = log.end_offset
    for _ in range(12):
        log.segments.forget_ends()
        at = Offset(chance.randrange(end))
        below = Offset(chance.randint(at, end))
        max_bytes = chance.choice([LEAST, 500, 2000, 1 << 20])
        least = chance.random() < 0.5
        freeze = chance.random() < 0.5
        if chance.random() < 0.2:
            forget(log)
        world.disk.cold = freeze
        found = log.serve(at, max_bytes, below=below, at_least_one=least)
        if isinstance(found, NeedsDisk):
            found = log.serve_from_disk(at, max_bytes, below=below, at_least_one=least)
        data = taken(world, found.data, chance, freeze=freeze)
        world.disk.cold = False
        check(log, at, max_bytes, below, least, found, data)
    world.close()


def check(
    log: Log, at: Offset, max_bytes: int, below: Offset, least: bool, found: Served, data: bytes
) -> None:
    whole = log.read_from_disk(at, 1 << 20, below=below)
    assert bytes(whole.data)[: len(data)] == data, "the same bytes, from the same batch on"
    headers = [header for _, header in iterate(memoryview(data))]
    assert sum(header.batch_length + 12 for header in headers) == len(data), "whole batches"
    careful = log.read_from_disk(at, max_bytes, below=below, at_least_one=least)
    assert bool(data) == bool(careful.data)
    if not data:
        return
    last = headers[-1].base_offset + headers[-1].last_offset_delta
    assert last + 1 == found.next_offset <= below
    if len(headers) > 1:
        assert len(data) <= max_bytes or least
    following = log.read_from_disk(found.next_offset, 1, below=log.end_offset)
    for _, header in iterate(memoryview(bytes(following.data))):
        assert header.base_offset == last + 1, "reading on misses nothing"
        break


def test_reading_on_by_ranges_gives_the_whole_log() -> None:
    world, log = filled([number * 37 % 900 for number in range(120)])
    assert len(log.segments) > 3
    chance = random.Random(1)
    at, out, used = Offset(0), b"", 0
    while at < log.end_offset:
        found = log.serve(at, 3000, below=log.end_offset)
        assert isinstance(found, Served)
        used += isinstance(found.data, BatchRange)
        out += taken(world, found.data, chance)
        at = found.next_offset
    files = [segment.file.read(0, segment.size) for segment in log.segments]
    assert out == b"".join(files)
    assert used > 10
    world.close()


def test_a_batch_larger_than_any_piece_is_checked_as_it_goes() -> None:
    world, log = filled([5000, 10])
    good = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(good, Served)
    assert taken(world, good.data, random.Random(2)) == log.segments[0].file.read(0, 1 << 20)
    forget(log)
    bad = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(bad, Served)
    world.disk.flip(LOG_FILE, 4900)
    with pytest.raises(HeadraceError, match="checksum"):
        taken(world, bad.data, random.Random(3))
    world.close()


@pytest.mark.parametrize("victim", [0, 3, 7])
def test_no_range_with_a_flipped_bit_becomes_whole_and_what_follows_is_read_with_care(
    victim: int,
) -> None:
    """Of a header; of the bytes behind it the checksum tells."""
    world, log = filled([100] * 12)
    positions = [at for at, _ in iterate(memoryview(log.segments[0].file.read(0, 1 << 20)))]
    first = log.segments[0]
    wrong = []
    for byte in sorted(set(range(HEADER_BYTES + 5)) - set(range(12, 16))):
        for bit in range(8):
            log.segments.forget_ends()
            forget(log)
            found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
            assert isinstance(found, Served)
            assert isinstance(found.data, BatchRange)
            world.disk.flip(LOG_FILE, positions[victim] + byte, 1 << bit)
            try:
                taken(world, found.data, random.Random(byte))
                wrong.append(f"byte {byte}, bit {bit}: became whole")
            except HeadraceError:
                pass
            if not first.suspect:
                wrong.append(f"byte {byte}, bit {bit}: forgotten")
            log.segments.forget_ends()
            careful = log.serve(Offset(0), 1 << 20, below=log.end_offset) if victim else None
            if isinstance(careful, Served) and not sound(careful, positions[victim]):
                wrong.append(f"byte {byte}, bit {bit}: served afterwards")
            world.disk.flip(LOG_FILE, positions[victim] + byte, 1 << bit)
            first.suspect = False
    assert wrong == []
    world.close()


def sound(careful: Served, damaged_at: int) -> bool:
    """Only what lies before the damage."""
    return not isinstance(careful.data, BatchRange) and len(careful.data) <= damaged_at


def test_damage_met_while_sending_is_told_to_who_asks_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, log = filled([100] * 12)
    world.disk.flip(LOG_FILE, 90)
    forget(log)
    for _ in range(2):
        found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
        assert isinstance(found, Served)
        with pytest.raises(HeadraceError):
            taken(world, found.data, random.Random(4))
        with pytest.raises(ApiError):
            log.serve(Offset(0), 1 << 20, below=log.end_offset)
        log.segments[0].suspect = False
    assert len([line for line in caplog.messages if LOG_FILE in line]) == 1
    assert log.context.damaged == 1
    world.close()


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize("event", ["truncated", "closed", "shortened", "unreadable"])
def test_a_range_whose_file_is_gone_ends_in_an_error(event: str, looked_at: bool) -> None:
    world, log = filled([100] * 12)
    if not looked_at:
        forget(log)
    found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(found, Served)
    assert isinstance(found.data, BatchRange)
    into = memoryview(bytearray(300))
    assert found.data.take(into) > 0
    if event == "truncated":
        truncate_to(log, Offset(2))
        append(log, b"another")
    elif event == "closed":
        log.segments[0].file.close()
    else:
        log.segments[0].file.truncate(700)
    with pytest.raises(HeadraceError) as refused:
        taken(world, found.data, random.Random(5), freeze=event == "unreadable")
    assert isinstance(refused.value, RangeLost) == (event in {"truncated", "closed"})
    world.disk.cold = False
    world.close()


def test_what_was_looked_at_and_stayed_is_sent_past_the_process_to_whoever_asks() -> None:
    world, log = filled([100] * 12)
    whole = log.segments[0].file.read(0, 1 << 20)
    for looked_at in (True, False, True):
        if not looked_at:
            forget(log)
        found = ranged(log)
        assert found.sendable == looked_at
        assert taken(world, found, random.Random(7)) == whole
    world.close()


@pytest.mark.parametrize("when", range(0, 1700, 50))
def test_rot_of_bytes_that_left_the_page_cache_is_found_whenever_they_leave(when: int) -> None:
    """Before the answer begins, or when so much of it has gone past the process unseen."""
    world, log = filled([100] * 12)
    found = ranged(log)
    assert found.sendable
    begun = b""
    while len(begun) < when:
        some = sent(found, when - len(begun))
        assert some
        begun += some
    world.disk.flip(LOG_FILE, log.segments[0].size - 10)
    world.disk.cold = True
    assert sent(found, 10) == b""
    with pytest.raises(HeadraceError, match="checksum"):
        taken(world, found, random.Random(when))
    world.disk.cold = False
    assert log.segments[0].suspect
    world.close()


def test_what_one_found_gone_from_memory_the_next_looks_at() -> None:
    """Also where the first to find it goes before anything was read."""
    world, log = filled([100] * 12)
    one = ranged(log)
    world.disk.cold = True
    assert sent(one, 10) == b""
    world.disk.cold = False
    assert not ranged(log).sendable
    taken(world, ranged(log), random.Random(9))
    assert ranged(log).sendable
    world.close()


def test_who_has_to_go_to_the_disk_makes_others_look_at_what_it_may_bring_along() -> None:
    world, log = filled([100] * 12)
    forget(log)
    first = ranged(log)
    taken(world, ranged(log), random.Random(10))
    assert ranged(log).sendable
    world.disk.cold = True
    assert first.take(memoryview(bytearray(200))) == 0
    first.fetch(lambda: None)
    world.disk.cold = False
    assert not ranged(log).sendable
    world.close()


@pytest.mark.parametrize("way", ["read", "serve"])
def test_a_small_answer_from_the_disk_makes_others_look_too(way: str) -> None:
    world, log = filled([100] * 12)
    assert ranged(log).sendable
    world.disk.cold = True
    if way == "read":
        assert isinstance(log.read(Offset(5), 50, below=log.end_offset), NeedsDisk)
    else:
        assert isinstance(log.serve(Offset(5), 50, below=log.end_offset), NeedsDisk)
    world.disk.cold = False
    assert not ranged(log).sendable
    world.close()


def test_a_batch_is_known_when_its_last_byte_was_seen_and_no_longer_when_it_is_bad() -> None:
    world, log = filled([100] * 12)
    sound, size = log.segments[0].sound, log.segments[0].size
    forget(log)
    first = ranged(log)
    one_batch = next(iterate(memoryview(log.segments[0].file.read(0, 1000))))[1].batch_length + 12
    assert first.take(memoryview(bytearray(100))) == 100 < one_batch
    assert not sound.covers(0, 1)
    first.take(memoryview(bytearray(100)))
    first.take(memoryview(bytearray(100)))
    assert sound.covers(0, one_batch)
    assert not sound.covers(0, one_batch + 1)
    world.disk.flip(LOG_FILE, size - 1)
    with pytest.raises(HeadraceError):
        taken(world, ranged(log), random.Random(11))
    assert not sound.covers(0, 1)
    world.close()


def ranged(log: Log) -> BatchRange:
    """The first segment as a range."""
    found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(found, Served)
    assert isinstance(found.data, BatchRange)
    return found.data


def test_a_scrub_that_finds_rot_has_it_looked_at_by_readers_too() -> None:
    world = World(config=CONFIG, periods=Periods(scrub_bytes_per_second=1 << 30))
    log = world.log()
    for _ in range(12):
        append(log, b"x" * 100)
    world.flush(log)
    world.disk.flip(LOG_FILE, 90)
    world.directory.scrub.start()
    for _ in range(70):
        world.clock.advance(1)
        world.disk.settle()
    assert log.context.damaged == 1
    found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(found, Served)
    with pytest.raises(HeadraceError):
        taken(world, found.data, random.Random(8))
    world.close()


def test_a_range_outlives_the_segments_new_name() -> None:
    world, log = filled([400] * 40)
    old = log.segments[0]
    found = log.serve(Offset(0), 1 << 20, below=log.end_offset)
    assert isinstance(found, Served)
    expected = old.file.read(0, old.size)
    old.rename_away(".deleted")
    assert taken(world, found.data, random.Random(6)) == expected
    world.close()


def test_little_data_and_little_room_are_read_at_once() -> None:
    world, log = filled([400] * 4)
    for max_bytes in (1, LEAST - 1):
        found = log.serve(Offset(0), max_bytes, below=log.end_offset)
        assert isinstance(found, Served)
        assert not isinstance(found.data, BatchRange)
    tail = Offset(log.end_offset - 1)
    found = log.serve(tail, 1 << 20, below=log.end_offset)
    assert isinstance(found, Served)
    result = log.read(tail, 1 << 20, below=log.end_offset)
    assert isinstance(result, ReadResult)
    assert records_of(bytes(result.data))
    world.close()
