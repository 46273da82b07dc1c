"""What compaction keeps, what it leaves out, and when it does nothing."""

from dataclasses import replace

import pytest

from headrace.log import file_names
from headrace.log.compaction.plan import Size, cleanable, filthiest, grouped
from headrace.log.text_files import read_file, read_offsets
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from tests.support.log.compaction import (
    COMPACTED,
    batches_of,
    cleaner_of,
    compact_now,
    newest,
    put,
    rows,
)
from tests.support.log.log import NOW_MS, PLACE, World, append_marker


def keys(number: int, *, value: bytes = b"v" * 40) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % (at % 5), value + b"%d" % at) for at in range(number)]


def filled(world: World, batches: int = 24) -> None:
    log = world.log()
    for at in range(batches):
        put(log, *[(b"k%d" % ((at + one) % 7), b"value %d.%d" % (at, one)) for one in range(3)])
    world.flush(log)


def checkpointed(world: World) -> dict[object, int]:
    content = read_file(world.disk, f"/data/{file_names.CLEANER_OFFSETS}")
    assert content is not None
    return dict(read_offsets(content, "it"))


@pytest.mark.parametrize("codec", list(wire.Codec), ids=lambda one: one.name)
def test_of_each_key_the_newest_record_stays_at_its_offset(codec: wire.Codec) -> None:
    world = World(config=COMPACTED)
    log = world.log()
    for at in range(30):
        put(log, *keys(5, value=b"%d-" % at * 9), codec=codec)
    world.flush(log)
    before = rows(log)
    upper = log.segments[-1].base_offset
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    after = rows(log)
    assert newest(after) == newest(before)
    below = [row for row in before if row[0] < upper]
    wanted = sorted((at, key, value) for key, (at, value) in newest(below).items())
    assert [row for row in after if row[0] < upper] == wanted
    assert [row for row in after if row[0] >= upper] == before[len(below) :]
    assert checkpointed(world) == {PLACE: upper}
    assert cleaner.counts.records_kept == len(wanted)
    assert not [name for name in world.disk.list("/data/t-0") if name.count(".") > 1]


def test_a_second_compaction_finds_nothing_to_do() -> None:
    world = World(config=COMPACTED)
    filled(world)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    assert cleaner.compactions == 1
    world.clock.advance(60)
    world.settle()
    assert cleaner.compactions == 1


def test_a_restart_goes_on_where_the_last_compaction_ended() -> None:
    world = World(config=COMPACTED)
    filled(world)
    compact_now(world, cleaner_of(world))
    before = rows(world.log())
    world.restart(clean=True)
    assert rows(world.log()) == before
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    assert cleaner.compactions == 0


def test_a_record_without_a_key_goes_and_is_counted() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (None, b"nobody"), (b"k", b"somebody"))
    filled(world)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    assert cleaner.counts.keyless == 1
    assert (1, b"k", b"somebody") in rows(log)
    assert all(key is not None for _, key, _ in rows(log))


@pytest.mark.parametrize("age_ms", [5, 90_000_000], ids=["young", "old"])
def test_a_tombstone_stays_until_its_horizon_has_passed(age_ms: int) -> None:
    """However old it is: the time to see it begins with the compaction that kept it."""
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (b"gone", b"once"), (b"stays", b"here"))
    put(log, (b"gone", None), timestamp=NOW_MS - age_ms)
    filled(world)
    cleaner = cleaner_of(world)
    cleaned_ms = world.clock.wall_ms() + 1000  # when the cleaner has rested
    compact_now(world, cleaner)
    found = rows(log)
    assert (2, b"gone", None) in found
    assert (0, b"gone", b"once") not in found
    header, data = next(one for one in batches_of(log) if one[0].base_offset == 2)
    assert header.attributes & wire.DELETE_HORIZON
    assert header.base_timestamp == cleaned_ms + COMPACTED.delete_retention_ms
    assert [one.timestamp for one in wire.records(data)] == [NOW_MS - age_ms]
    world.clock.advance(2)
    filled(world)
    compact_now(world, cleaner)
    assert cleaner.compactions == 2
    assert b"gone" not in newest(rows(log))
    assert newest(rows(log))[b"stays"] == (1, b"here")


def test_compactions_before_a_tombstones_horizon_keep_it() -> None:
    world = World(config=replace(COMPACTED, delete_retention_ms=60_000))
    log = world.log()
    put(log, (b"gone", b"once"))
    put(log, (b"gone", None))
    cleaner = cleaner_of(world)
    for compactions in (1, 2, 3):
        filled(world)
        compact_now(world, cleaner)
        assert cleaner.compactions == compactions
        assert (1, b"gone", None) in rows(log)
    world.clock.advance(60)
    filled(world)
    compact_now(world, cleaner)
    assert b"gone" not in newest(rows(log))


def test_the_last_batch_of_what_is_compacted_keeps_its_header_though_nothing_of_it_stays() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (b"k", b"stays"))
    put(log, (None, b"nobody's"), (None, b"nobody's"))
    log.roll()
    put(log, (b"k", b"in the active segment"))
    world.flush(log)
    compact_now(world, cleaner_of(world))
    kept = [
        (one.base_offset, one.last_offset_delta, one.record_count) for one, _ in batches_of(log)
    ]
    assert kept == [(0, 0, 1), (1, 1, 0), (3, 0, 1)]


def test_what_aborted_transactions_wrote_goes_and_its_marker_later() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (b"a", b"kept"))
    put(log, (b"a", b"aborted"), producer=(7, 0, 0), transactional=True)
    append_marker(log, 7, commit=False)
    put(log, (b"b", b"committed"), producer=(7, 0, 1), transactional=True)
    append_marker(log, 7, commit=True)
    put(log, (b"c", b"plain"), producer=(7, 0, 2))
    filled(world)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    found = newest(rows(log))
    assert (found[b"a"], found[b"b"]) == ((0, b"kept"), (3, b"committed"))
    markers = [one.base_offset for one, _ in batches_of(log) if one.attributes & wire.CONTROL]
    assert markers == [2, 4]
    assert [one.first_offset for one in log.segments[0].txn_index.entries] == [1]
    for _ in range(3):
        world.clock.advance(5)
        filled(world)
        compact_now(world, cleaner)
    markers = [one.base_offset for one, _ in batches_of(log) if one.attributes & wire.CONTROL]
    assert markers == [4]  # its transaction is still there
    assert log.segments[0].txn_index.entries == []


def test_nothing_undecided_is_touched() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    filled(world, 8)
    first = put(log, (b"k0", b"open"), producer=(9, 0, 0), transactional=True).base_offset
    filled(world)
    found = cleanable(log, None, NOW_MS)
    assert found is not None
    assert found.upper <= first
    before = [row for row in rows(log) if row[0] >= found.upper]
    compact_now(world, cleaner_of(world))
    assert [row for row in rows(log) if row[0] >= found.upper] == before


def test_a_producers_last_batch_keeps_its_header_and_the_sequence_goes_on() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (b"k0", b"old"), producer=(5, 0, 0))
    put(log, (b"k0", b"older"), (b"k1", b"too"), producer=(5, 0, 1))
    filled(world)
    compact_now(world, cleaner_of(world))
    kept = [one for one, _ in batches_of(log) if one.producer_id == 5]
    assert [(one.base_offset, one.last_offset_delta, one.record_count) for one in kept] == [
        (1, 1, 0)
    ]
    for name in [one for one in world.disk.list("/data/t-0") if one.endswith(file_names.SNAPSHOT)]:
        world.disk.remove(f"/data/t-0/{name}")
    world.restart(clean=False)
    again = world.log()
    header = wire.parse_header(wire.build([wire.new_record(b"", b"")], producer_id=5,
                                          producer_epoch=0, base_sequence=3))  # fmt: skip
    assert again.producers.check(header, NOW_MS) is None


def test_min_compaction_lag_leaves_the_young_alone() -> None:
    config = replace(COMPACTED, min_compaction_lag_ms=10_000)
    world = World(config=config)
    filled(world)
    log = world.log()
    assert cleanable(log, None, NOW_MS + 9_000) is None
    found = cleanable(log, None, NOW_MS + 11_000)
    assert found is not None
    assert found.upper == log.segments[-1].base_offset


def test_max_compaction_lag_makes_a_log_due_whatever_its_ratio() -> None:
    config = replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10_000)
    world = World(config=config)
    filled(world)
    log = world.log()
    early, late = (cleanable(log, None, NOW_MS + wait) for wait in (9_000, 11_000))
    assert early is not None
    assert late is not None
    assert (early.due, late.due) == (False, True)


def test_neither_hold_nor_high_watermark_is_passed() -> None:
    world = World(config=COMPACTED)
    filled(world)
    log = world.log()
    middle = log.segments[3].base_offset
    held = cleanable(log, None, NOW_MS, Offset(middle + 1))
    assert held is not None
    assert held.upper == middle
    log.high_watermark = middle
    marked = cleanable(log, None, NOW_MS)
    assert marked is not None
    assert marked.upper == middle


def test_the_filthiest_is_the_one_with_the_greatest_dirty_share() -> None:
    world = World(config=COMPACTED)
    filled(world)
    log = world.log()
    some = cleanable(log, log.segments[3].base_offset, NOW_MS)
    whole = cleanable(log, None, NOW_MS)
    assert some is not None
    assert whole is not None
    assert filthiest([some, whole]) is whole
    log.config = replace(log.config, min_cleanable_dirty_ratio=0.99)
    assert filthiest([some]) is None


def test_a_checkpoint_outside_the_log_counts_as_none() -> None:
    world = World(config=COMPACTED)
    filled(world)
    log = world.log()
    for wrong in (log.end_offset + 1, -1):
        found = cleanable(log, Offset(wrong), NOW_MS)
        assert found is not None
        assert found.first_dirty == 0


def test_segments_are_grouped_by_size_index_and_range_of_offsets() -> None:
    sizes = [Size(at * 100, 40, 8, 12) for at in range(6)]
    assert [len(group) for group in grouped(sizes, 600, 100, 1000)] == [2, 2, 2]
    assert [len(group) for group in grouped(sizes, 600, 1000, 24)] == [2, 2, 2]
    far = [Size(0, 10, 0, 0), Size(5, 10, 0, 0), Size(1 << 31, 10, 0, 0)]
    assert [len(group) for group in grouped(far, (1 << 31) + 9, 1000, 1000)] == [2, 1]
    assert [len(group) for group in grouped(far[:2], 1 << 31, 1000, 1000)] == [2]
    assert [len(group) for group in grouped(far[:2], (1 << 31) + 1, 1000, 1000)] == [1, 1]


def test_a_full_map_compacts_in_several_passes() -> None:
    world = World(config=COMPACTED)
    filled(world)
    log = world.log()
    before = newest(rows(log))
    cleaner = cleaner_of(
        world, log_cleaner_dedupe_buffer_size=200 * 4, log_cleaner_io_buffer_load_factor=1.0
    )
    compact_now(world, cleaner)
    assert cleaner.compactions > 2
    assert newest(rows(log)) == before
    assert checkpointed(world) == {PLACE: log.segments[-1].base_offset}


def test_deleted_records_do_not_come_back() -> None:
    config = replace(COMPACTED, cleanup_policy=frozenset({"compact", "delete"}))
    world = World(config=config)
    filled(world)
    log = world.log()
    start = log.delete_records(Offset(log.segments[2].base_offset + 1))
    world.settle()
    world.directory.apply_retention()
    compact_now(world, cleaner_of(world))
    assert log.start_offset == start
    world.restart(clean=True)
    assert world.log().start_offset == start
    assert min(at for at, _, _ in rows(world.log()) if at >= start) >= start


def test_a_damaged_log_is_marked_and_the_others_go_on() -> None:
    from headrace.model.nouns import TopicPartition

    world = World(config=COMPACTED)
    filled(world)
    other = world.log(TopicPartition("u", 1))
    for at in range(24):
        put(other, *keys(4, value=b"%d" % at))
    world.flush(other)
    world.disk.flip("/data/t-0/00000000000000000000.log", 70)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    assert list(cleaner.uncleanable) == [PLACE]
    assert "at byte 0: the checksum" in cleaner.uncleanable[PLACE]
    assert len(newest(rows(other))) == 4
    assert cleaner.compactions == 1
    assert not [name for name in world.disk.list("/data/t-0") if name.endswith(".cleaned")]
