"""How far back a start looks for a producer's batches, and what a truncation leaves in files."""

import pytest

from headrace.log import file_names
from headrace.log.recovery import replay
from headrace.log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from headrace.model.nouns import Offset
from tests.support.log.log import NOW_MS, World, append, content, truncate_to


def three_segments(world: World) -> None:
    log = world.log()
    for segment in range(3):
        for number in range(4):
            at = segment * 4 + number
            append(log, b"%02d" % at * 50, producer=(7, 0, at), timestamp=NOW_MS + at)
        if segment < 2:
            log.roll()
    world.flush(log)


@pytest.mark.parametrize(
    ("more", "offsets"), [(-1, range(8, 12)), (0, range(8, 12)), (1, range(7, 12))]
)
def test_batches_are_remembered_as_far_back_as_there_are_bytes_to_look_into(
    more: int, offsets: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    three_segments(world)
    log = world.log()
    monkeypatch.setattr(replay, "_HISTORY_BYTES", log.segments[-1].size + more)
    found = [header.base_offset for header in replay._recent_headers(log, log.end_offset)]
    assert found[-4:] == list(offsets[-4:])
    assert (found[0] < 8) is (offsets[0] < 8)
    monkeypatch.setattr(replay, "_HISTORY_BYTES", 1 << 20)
    for end in (1, 4, 5, 8, 9, 12):
        found = [header.base_offset for header in replay._recent_headers(log, Offset(end))]
        assert found == list(range(end))


def test_the_index_files_of_a_log_cut_short_hold_just_what_stays() -> None:
    for target in range(12):
        world = World()
        three_segments(world)
        log = world.log()
        log.segments.active.write_out_indexes()
        truncate_to(log, Offset(target))
        active = log.segments.active
        assert log.end_offset == target
        base = active.base_offset
        entries = [OFFSET_ENTRY.pack(at - base, place) for at, place in active.index.entries()]
        assert _file(world, active.path(file_names.INDEX)) == b"".join(entries)
        times = [TIME_ENTRY.pack(ms, at - base) for ms, at in active.time_index.entries()]
        assert _file(world, active.path(file_names.TIME_INDEX)) == b"".join(times)
        assert all(at < target for _, at in active.time_index.entries())
        assert all(place < active.size for _, place in active.index.entries())


def _file(world: World, path: str) -> bytes:
    return content(world.disk, path) if world.disk.exists(path) else b""
