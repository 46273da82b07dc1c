"""Logs that nobody changed are taken up without being looked into; all others are looked into."""

from collections.abc import Callable

import pytest

from headrace.log import file_names
from headrace.log.directory import unchanged_logs
from headrace.log.directory.log_directory import AT_REST_EVERY
from headrace.log.directory.periods import Periods
from headrace.log.log import Log
from headrace.log.producers.producer_states import Duplicate
from headrace.model.errors import ApiError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.disk import DiskFile
from headrace.record.batch import parse_header
from headrace.testing.disk import SimDisk
from tests.support.log.log import NOW_MS, PLACE, World, append, batch_of, values

OTHER = TopicPartition("t", 1)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of all files that are opened, partition by partition."""
    found: list[str] = []
    before = SimDisk.open

    def note(disk: SimDisk, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        found.append(path)
        return before(disk, path, create=create, writable=writable)

    monkeypatch.setattr(SimDisk, "open", note)
    return found


def inside(opened: list[str], place: TopicPartition = PLACE) -> list[str]:
    return [path for path in opened if f"/{place}/" in path]


def picture(log: Log) -> tuple[object, ...]:
    """All that a start must know of a log."""
    return (
        log.start_offset, log.end_offset, log.flushed_offset, log.high_watermark, log.topic_id,
        log.epochs.entries, log.producers.kept.entries(), log.snapshot_offset,
        [(one.base_offset, one.size, one.max_timestamp) for one in log.segments],
        log.segments[-1].first_timestamp, log.segments[-1].bytes_since_index,
        values(log),
    )  # fmt: skip


def filled(world: World, place: TopicPartition = PLACE) -> Log:
    log = world.log(place)
    for number in range(30):
        append(
            log, b"x" * 100, epoch=number // 10, timestamp=NOW_MS - number,
            producer=(7, 0, number),
        )  # fmt: skip
    world.flush(log)
    return log


def test_after_a_clean_stop_a_log_is_known_whole_and_no_file_of_it_was_opened(
    opened: list[str],
) -> None:
    world = World(at_rest=True)
    before = picture(filled(world))
    assert len(world.log().segments) > 3
    world.directory.close()
    opened.clear()
    world.restart(clean=True)
    assert inside(opened) == []
    after = picture(world.log())
    assert after[:6] == before[:6]
    assert after[6] == before[6]
    assert after[8:] == before[8:]
    world.close()


def test_what_is_taken_up_so_is_what_looking_into_the_files_finds() -> None:
    world = World(at_rest=True)
    filled(world)
    world.restart(clean=True)
    known = picture(world.log())
    world.directory.close()
    world.disk.remove(f"/data/{unchanged_logs.FILE_NAME}")
    world.directory = world._open()
    assert picture(world.log()) == known
    world.close()


def test_a_retry_of_any_of_the_last_batches_is_still_known() -> None:
    world = World(at_rest=True)
    filled(world)
    world.restart(clean=True)
    producers = world.log().producers
    for number in range(25, 30):
        header = parse_header(batch_of(b"x" * 100, producer=(7, 0, number)))
        assert isinstance(producers.check(header, NOW_MS), Duplicate)
    with pytest.raises(ApiError):
        producers.check(parse_header(batch_of(b"x", producer=(7, 0, 31))), NOW_MS)
    world.close()


@pytest.mark.parametrize("at_rest", [True, False], ids=["at rest", "looked into"])
def test_a_start_long_after_forgets_producers_that_were_not_heard_of(at_rest: bool) -> None:
    world = World(at_rest=at_rest, periods=Periods(producer_id_expiration_ms=60_000))
    log = world.log()
    append(log, b"x", timestamp=NOW_MS, producer=(7, 0, 0))
    append(log, b"x", timestamp=NOW_MS + 2000, producer=(8, 0, 0))
    world.flush(log)
    world.directory.close()
    world.clock.advance(61)
    world.start()
    assert [entry.producer_id for entry in world.log().producers.kept.entries()] == [8]
    world.close()


def test_appends_go_on_with_indexes_as_if_there_had_been_no_restart() -> None:
    worlds = World(at_rest=True), World(at_rest=True)
    for world in worlds:
        filled(world)
    worlds[0].restart(clean=True)
    for world in worlds:
        log = world.log()
        for number in range(30, 60):
            append(
                log, b"y" * 100, epoch=5, timestamp=NOW_MS - 100 + 2 * number,
                producer=(7, 0, number),
            )  # fmt: skip
        world.flush(log)
    (one, other) = (world.log() for world in worlds)
    assert values(one) == values(other)
    assert [s.base_offset for s in one.segments] == [s.base_offset for s in other.segments]
    for stamp in range(NOW_MS - 50, NOW_MS + 30):
        assert one.offset_for_time(stamp) == other.offset_for_time(stamp)
    for world in worlds:
        world.close()


def _append_unflushed(world: World) -> None:
    append(world.log(), b"later")


def _a_file_of_another(world: World) -> None:
    world.disk.open(f"/data/{PLACE}/stranger", create=True).close()


def _rewrite(world: World) -> None:
    segment = world.log().segments[-1]
    file = world.disk.open(segment.path(file_names.LOG))
    file.write_at(0, (file.read(0, segment.size),))
    file.close()


@pytest.mark.parametrize("change", [_append_unflushed, _a_file_of_another, _rewrite])
def test_a_log_that_changed_since_is_looked_into_after_a_kill_and_the_others_are_not(
    change: Callable[[World], None], opened: list[str]
) -> None:
    world = World(at_rest=True)
    filled(world)
    filled(world, OTHER)
    world.restart(clean=True)
    change(world)
    end = world.log().end_offset
    opened.clear()
    world.restart(clean=False)
    assert inside(opened, OTHER) == []
    assert inside(opened)
    assert world.log().end_offset == end
    world.close()


@pytest.mark.parametrize("damage", [b"", b"1 00000000\n[]", b"nonsense"])
def test_a_torn_file_is_left_aside(damage: bytes) -> None:
    world = World(at_rest=True)
    before = filled(world).end_offset
    world.directory.close()
    world.disk.replace(f"/data/{unchanged_logs.FILE_NAME}", damage)
    world.directory = world._open()
    assert world.log().end_offset == before
    world.close()


def test_a_running_broker_writes_now_and_then_which_logs_are_at_rest(opened: list[str]) -> None:
    world = World(at_rest=True, periods=Periods(checkpoint_ms=1000))
    filled(world)
    append(world.log(OTHER), b"flushed")
    world.flush(world.log(OTHER))
    append(world.log(OTHER), b"not flushed")
    world.directory.start()
    for _ in range(AT_REST_EVERY + 1):
        world.clock.advance(1.0)
        world.settle()
    opened.clear()
    world.restart(clean=False)
    assert inside(opened) == []
    assert inside(opened, OTHER)
    world.close()


def test_a_log_with_an_open_transaction_is_looked_into(opened: list[str]) -> None:
    world = World(at_rest=True)
    append(world.log(), b"undecided", producer=(7, 0, 0), transactional=True)
    world.flush(world.log())
    world.directory.close()
    opened.clear()
    world.restart(clean=True)
    assert inside(opened)
    assert world.log().last_stable_offset(Offset(1)) == 0
    assert world.log().epochs.latest == LeaderEpoch(0)
    world.close()
