"""`log verify` beside a running broker, and of compacted partitions."""

from pathlib import PurePosixPath

import pytest

from headrace.log import file_names, text_files
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.producers.producer_snapshot import read_snapshot, write_snapshot
from headrace.log.recovery.gaps import FILE_NAME as GAPS
from headrace.logtools.verify import Kind, Report, verify_file, verify_path
from tests.support.log.log import PLACE, World, append, content, overwrite
from tests.unit.logtools.test_verify import damaged, flip, segments, verified, written


def running(records: int = 4) -> World:
    """A broker's directory while it runs: one active segment, flushed to its end."""
    world = World()
    log = world.log()
    for number in range(records):
        append(log, b"v%d" % number)
    world.flush(log)
    world.directory.publish([log])
    return world


@pytest.mark.parametrize("bounds", [True, False], ids=["durable-read-bounds", "recovery point"])
@pytest.mark.parametrize("by_file", [True, False])
def test_damage_of_flushed_batches_is_found_while_they_are_written(
    bounds: bool, by_file: bool
) -> None:
    world = running()
    if not bounds:
        disk = world.disk
        points = text_files.write_offsets({PLACE: 4})
        overwrite(disk, f"/data/{file_names.RECOVERY_POINTS}", points)
        overwrite(disk, f"/data/{durable_read_bounds.NAME}", b"")
    (path,) = segments(world.disk, ".log")
    flip(world.disk, path, 30)
    report = Report(live=True)
    if by_file:
        verify_file(world.disk, path, report)
    else:
        verify_path(world.disk, "/data", report)
    assert damaged(report) == {(Kind.BATCH, PurePosixPath(path).name)}
    (text,) = [one.text for one in report.findings if one.damage]
    assert "offsets below 4 were flushed" in text


def test_an_unflushed_end_is_counted_as_not_checked() -> None:
    world = running()
    (path,) = segments(world.disk, ".log")
    overwrite(world.disk, path, content(world.disk, path) + b"\0" * 70)
    report = verified(world.disk, live=True)
    assert (report.sound, report.unchecked, report.batches) == (True, 70, 4)


def test_a_log_that_ends_before_what_was_flushed_is_damaged() -> None:
    world = running()
    (path,) = segments(world.disk, ".log")
    data = content(world.disk, path)
    overwrite(world.disk, path, data[: len(data) // 4 * 3])
    report = verified(world.disk, live=True)
    assert damaged(report) == {(Kind.GAP, str(PLACE))}


@pytest.mark.parametrize(
    ("changed", "gaps_below", "sound"),
    [
        ({"last_offset": 50, "last_sequence": 9}, 60, True),
        ({"last_offset": 50, "last_sequence": 9}, 50, False),
        ({"last_offset": 50, "last_sequence": 9}, 0, False),
        ({"last_sequence": 9}, 60, False),
        ({"producer_epoch": 5}, 60, False),
        ({"last_offset": 2, "last_sequence": 0}, 60, False),
        ({"current_txn_first_offset": 40}, 60, True),
        ({"current_txn_first_offset": 40}, 40, False),
    ],
)
def test_a_snapshot_may_know_batches_that_compaction_removed(
    changed: dict[str, int], gaps_below: int, sound: bool
) -> None:
    disk = written()
    path = segments(disk, ".snapshot")[-1]
    entries = read_snapshot(content(disk, path), path)
    overwrite(disk, path, write_snapshot([one._replace(**changed) for one in entries]))
    overwrite(disk, f"/data/{GAPS}", text_files.write_offsets({PLACE: gaps_below}))
    report = verified(disk)
    assert report.sound is sound, report.findings
