"""Segments go from between others where nobody wants them, and no start takes that for a loss."""

import pytest

from headrace.log import file_names
from headrace.logtools.verify import Report, verify_directory
from headrace.model.nouns import Offset
from tests.support.log.log import (
    PLACE,
    World,
    append,
    append_marker,
    bases,
    content,
    overwrite,
    read,
    records_of,
    truncate_to,
    values,
)
from tests.support.log.lost_segments import STOPS, lose, stop
from tests.support.log.thinning import BATCHES, CONFIG, filled, hold, let_go, thinned

SEGMENTS = list(range(0, BATCHES, 2))
LAST = SEGMENTS[-1]


def committed(world: World, start: int = 0) -> list[bytes | None]:
    """The values that readers of committed data see, aborted transactions left out."""
    log = world.log()
    end = log.last_stable_offset(log.high_watermark)
    aborted = log.aborted_transactions(Offset(start), end)
    found: list[bytes | None] = []
    at = Offset(start)
    while at < end:
        result = read(log, at, 1 << 20, below=end)
        found += [
            record.value
            for record in records_of(bytes(result.data))
            if record.offset >= at
            and not any(one.first_offset <= record.offset < one.last_offset for one in aborted)
        ]
        if result.next_offset <= at:
            break
        at = result.next_offset
    return found


def test_what_nobody_wants_goes_from_between_others_and_readers_pass_on() -> None:
    world = filled()
    before = values(world.log())
    assert bases(world) == SEGMENTS
    hold(world, 0, 6)
    assert let_go(world) == [0, 6, LAST]
    log = world.log()
    left = {at: before[at] for at in (0, 1, 6, 7, LAST, LAST + 1)}
    assert values(log) == left
    assert values(log, start=2) == {at: left[at] for at in left if at >= 2}
    assert values(log, start=9) == {at: left[at] for at in left if at >= 9}
    assert log.start_offset == 0
    filled(world, first=BATCHES, count=2)
    assert len(values(log)) == len(left) + 2
    world.close()


def test_the_first_segment_and_the_active_one_stay_whoever_wants_them() -> None:
    world = filled()
    hold(world, *range(2, BATCHES))
    world.log().delete_records(Offset(2))
    assert let_go(world) == SEGMENTS[1:]
    world.restart(clean=True)  # which leaves a snapshot at the log's end
    held = hold(world, 2)
    assert let_go(world) == [2, LAST]
    held.runs[:] = [(LAST, LAST)]
    assert let_go(world) == [2, LAST]
    world.close()


@pytest.mark.parametrize(
    ("below", "left"),
    [(3, SEGMENTS), (4, [0, *SEGMENTS[2:]]), (5, [0, *SEGMENTS[2:]]), (6, [0, *SEGMENTS[3:]])],
)
def test_segments_go_as_far_as_is_said_and_no_further(below: int, left: list[int]) -> None:
    world = filled()
    hold(world, 0)
    assert let_go(world, below) == left
    world.close()


def test_nothing_goes_that_is_not_committed_or_not_on_the_disk() -> None:
    world = filled()
    hold(world, 0)
    log = world.log()
    log.high_watermark = Offset(5)
    assert let_go(world) == [0, *SEGMENTS[2:]]
    for number in range(4):
        append(log, b"%03d" % number * 50)
    log.high_watermark = log.end_offset
    log.context.events.let_go(log, log.end_offset)
    world.disk.settle()  # the flush that is due comes with the next turn
    assert log.flushed_offset == BATCHES
    world.settle()
    assert bases(world) == [0, BATCHES, BATCHES + 2]
    world.close()


def test_what_is_wanted_of_a_segment_keeps_all_of_it_from_its_first_offset_to_its_last() -> None:
    for offset, base in ((4, 4), (5, 4), (6, 6)):
        world = filled()
        hold(world, 0, offset)
        assert let_go(world) == [0, base, LAST]
        world.close()


def test_files_are_renamed_at_once_and_removed_when_their_time_has_come() -> None:
    world = filled()
    hold(world, 0)
    let_go(world)
    directory = world.log().directory
    logs = [name for name in world.disk.list(directory) if name.endswith(file_names.LOG)]
    assert len(logs) == 2
    assert len([name for name in world.disk.list(directory) if name.endswith(".deleted")]) >= 6
    snapshots = [name for name in world.disk.list(directory) if name.endswith(file_names.SNAPSHOT)]
    assert {int(name.partition(".")[0]) for name in snapshots} == {LAST}
    world.clock.advance(0.6)
    world.settle()
    assert not [name for name in world.disk.list(directory) if name.endswith(".deleted")]
    world.close()


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("at_rest", [False, True])
def test_a_start_takes_what_went_for_no_loss_however_often(how: str, at_rest: bool) -> None:
    world = filled(World(config=CONFIG, at_rest=at_rest))
    world.directory.at_rest.write_soon([world.log()], world.clock)
    world.settle()
    thinned(world, 0, 6)
    left = values(world.log())
    for _ in range(2):
        stop(world, how)
        world.start()
        assert not world.directory.quarantined
        assert values(world.log()) == left
        filled(world, first=40, count=2)
        left = values(world.log())
    world.close()


@pytest.mark.parametrize("how", ["killed", "powered off"])
def test_what_went_since_the_segments_were_last_written_down_is_no_loss(how: str) -> None:
    """The second time, the offset below which there may be gaps has been noted before."""
    world = filled(World(config=CONFIG, at_rest=True))
    held = hold(world, 0, 4, 8)
    assert let_go(world) == [0, 4, 8, LAST]
    world.clock.advance(0.6)
    world.settle()
    world.directory.at_rest.write_soon([world.log()], world.clock)
    world.settle()
    del held.runs[1:]
    assert let_go(world) == [0, LAST]
    append(world.log(), b"later")
    world.flush(world.log())
    stop(world, how)
    world.start()
    assert not world.directory.quarantined
    world.close()


def test_a_segment_that_is_lost_beside_those_that_went_is_found_after_a_clean_stop() -> None:
    world = thinned(filled(World(config=CONFIG, at_rest=True)), 0, 6)
    world.clock.advance(0.6)
    world.settle()
    stop(world, "stopped")
    lose(world.disk, 6)
    world.start()
    assert f"offsets 6 to {LAST - 1} are missing" in str(world.directory.quarantined[PLACE])
    world.close()


@pytest.mark.parametrize("clean", [True, False])
def test_the_tool_that_verifies_finds_nothing_wrong(clean: bool) -> None:
    world = thinned(filled(), 0, 6)
    world.directory.close(clean)
    report = Report()
    for _ in verify_directory(world.disk, "/data", report):
        pass
    assert [finding for finding in report.findings if finding.damage] == []


# --- transactions ------------------------------------------------------------------------


def with_transaction(*, commit: bool, across: bool, first: bool = False) -> World:
    """A transaction of one record in the segment at 2, or from there into the one at 3.

    `first`: it is in the first segment, at offset 0.
    """
    world = filled(count=0 if first else 2)
    log = world.log()
    assert len(log.segments) == 1
    if not first:
        log.roll()
    append(log, b"of a transaction", producer=(9, 0, 0), transactional=True)
    if across:
        log.roll()
    else:
        append(log, b"beside it")
    append_marker(log, 9, commit=commit)
    log.roll()
    return filled(world, first=50, count=4)


@pytest.mark.parametrize("commit", [True, False])
def test_a_segment_stays_that_ends_what_an_earlier_one_has_of_a_transaction(commit: bool) -> None:
    world = with_transaction(commit=commit, across=True)
    hold(world, 0, 2)
    assert let_go(world)[:4] == [0, 2, 3, 6]
    seen = committed(world)
    assert (b"of a transaction" in seen) is commit
    for points in (True, False):
        # Without recovery points all is read again: whose transaction is open is told by markers.
        stop(world, "killed")
        if not points:
            world.disk.remove(f"/data/{file_names.RECOVERY_POINTS}")
        world.start()
        world.log().high_watermark = world.log().end_offset
        assert committed(world) == seen
    world.close()


def test_a_segment_stays_that_ends_the_transaction_that_the_log_begins_with() -> None:
    world = with_transaction(commit=True, across=True, first=True)
    hold(world, 0)
    assert let_go(world)[:2] == [0, 1]
    world.close()


def test_a_segment_stays_that_ends_a_transaction_though_it_may_go_only_since_others_do() -> None:
    world = with_transaction(commit=True, across=True)
    filled(world, first=60, count=6)
    held = hold(world, 0, 2, 3)
    log = world.log()
    log.context.events.let_go(log, log.end_offset)
    del held.runs[2:]
    world.settle()
    assert bases(world)[:3] == [0, 2, 3]
    world.close()


def test_who_ends_a_transaction_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_transaction(commit=True, across=True)
    hold(world, 0, 2)
    let_go(world)

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is to be looked for")

    monkeypatch.setattr(world.disk, "run", refuse)
    let_go(world)
    world.close()


def test_a_transaction_that_lies_in_what_goes_goes_with_it() -> None:
    world = with_transaction(commit=False, across=False)
    hold(world, 0)
    assert let_go(world)[:2] == [0, 7]
    assert world.log().aborted_transactions(Offset(0), world.log().end_offset) == []
    world.restart(clean=False)
    assert not world.directory.quarantined
    world.close()


@pytest.mark.parametrize("harm", ["gone", "torn"])
def test_a_segment_stays_of_whose_beginning_nothing_is_known(harm: str) -> None:
    world = filled()
    path = f"/data/t-0/{file_names.segment_file(4, file_names.SNAPSHOT)}"
    if harm == "gone":
        world.disk.remove(path)
    else:
        overwrite(world.disk, path, content(world.disk, path)[:-1])
    hold(world, 0)
    assert let_go(world) == [0, 2, 4, LAST]
    world.close()


def test_a_producer_is_known_whose_batches_went() -> None:
    world = filled(count=2)
    log = world.log()
    log.roll()
    append(log, b"by a producer", producer=(7, 0, 0))
    log.roll()
    filled(world, first=30, count=4)
    thinned(world, 0)
    for _ in range(2):
        world.restart(clean=False)
        assert 7 in world.log().producers
    world.close()


def test_a_segment_stays_of_whose_producers_no_snapshot_behind_it_tells() -> None:
    world = filled()
    world.disk.remove(f"/data/t-0/{file_names.segment_file(6, file_names.SNAPSHOT)}")
    hold(world, 0, 6)
    assert let_go(world) == [0, 4, 6, LAST]
    world.close()


# --- what happens meanwhile --------------------------------------------------------------


def test_what_is_wanted_by_the_time_the_gap_is_noted_stays() -> None:
    world = filled()
    held = hold(world, 0)
    log = world.log()
    log.context.events.let_go(log, log.end_offset)
    held.runs.append((6, 6))
    world.settle()
    assert bases(world) == [0, 6, LAST]
    world.close()


def test_what_may_go_since_is_asked_for_again_when_others_have_gone() -> None:
    world = filled()
    held = hold(world, 0, 6, 10)
    log = world.log()
    log.context.events.let_go(log, log.end_offset)
    del held.runs[1:]
    log.context.events.let_go(log, Offset(10))
    assert bases(world) == SEGMENTS
    world.settle()
    assert bases(world) == [0, 10, LAST]
    world.close()


@pytest.mark.parametrize("end", ["closed", "cut", "deleted"])
def test_a_log_that_ends_or_is_cut_meanwhile_is_left_alone(end: str) -> None:
    world = filled()
    hold(world, 0)
    log = world.log()
    log.context.events.let_go(log, log.end_offset)
    before = bases(world)
    if end == "closed":
        world.directory.close(clean=True)
        world.settle()
        world.start()
        assert bases(world) == before
    elif end == "cut":
        truncate_to(log, Offset(3))
        assert bases(world) == [0, 2]
        world.settle()
        assert bases(world) == [0, 2]
    else:
        world.directory.delete_log(PLACE)
        world.settle()
        assert PLACE not in world.directory.logs
    assert not world.directory.fenced
    world.close()


@pytest.mark.parametrize("broken", ["the snapshots", "the note of gaps", "the files' names"])
def test_a_disk_that_fails_on_the_way_fences_its_directory_and_loses_nothing(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled()
    hold(world, 0)
    before = values(world.log())

    def fail(*_: object) -> None:
        raise OSError(5, "no disk")

    if broken == "the snapshots":
        monkeypatch.setattr("headrace.log.directory.thinning.read_file", fail)
    elif broken == "the note of gaps":
        monkeypatch.setattr("headrace.log.recovery.gaps.Gaps.write", fail)
    else:
        monkeypatch.setattr("headrace.log.segment.segment.Segment.rename_away", fail)
    let_go(world)
    assert world.directory.fenced
    monkeypatch.undo()
    world.restart(clean=False)
    assert values(world.log()) == before
    world.close()


def test_notes_of_gaps_that_are_asked_for_while_one_is_written_are_written_after_it() -> None:
    world = filled()
    gaps, told = world.directory.gaps, []
    gaps.allow(PLACE, Offset(3))
    gaps.write_soon(lambda error: told.append(("first", error)))
    gaps.allow(PLACE, Offset(9))
    gaps.write_soon(lambda error: told.append(("second", error)))
    writing = [world.directory.writing]
    assert len(world.disk._queue) == 1, "one writer at a time"
    world.disk.settle(1)
    assert told == [("first", None)]
    world.settle()
    assert told == [("first", None), ("second", None)]
    assert b" 9\n" in content(world.disk, "/data/headrace-gap-offset-checkpoint")
    assert [*writing, world.directory.writing] == [True, False]
    world.close()
