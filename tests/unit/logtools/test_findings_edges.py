"""At which offset exactly `log verify` makes a remark of damage, and what it leaves out."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.logtools.verify import Report, verify_directory
from headrace.logtools.verify.directory import verify_path
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, World, append, content, overwrite
from tests.unit.logtools.test_findings import (
    FOUND,
    Plant,
    base,
    epoch_behind_the_end,
    ragged_transactions,
    said,
    snapshot_behind_the_end,
    without_its_log,
    wrong_open_transaction,
)
from tests.unit.logtools.test_verify import (
    PATH,
    flip_batch,
    flushed_yet_missing,
    lost_segment,
    segments,
    shifted_index,
    verified,
    written,
)

GAPS = "headrace-gap-offset-checkpoint"


def after_a_kill(disk: SimDisk, recovery_point: int) -> None:
    if disk.exists(f"/data/{file_names.CLEAN_SHUTDOWN}"):
        disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    overwrite(
        disk,
        f"/data/{file_names.RECOVERY_POINTS}",
        text_files.write_offsets({PLACE: recovery_point}),
    )


AFTER_A_KILL = [
    # What is planted, up to which recovery point it is a remark, and what is said then.
    (flip_batch, 18, "a torn tail of 972 bytes, which the next start cuts off"),
    (lost_segment, 17, "lost with the power, and the next start cuts off what lies behind"),
    (shifted_index, 0, "the next start builds it again"),
    (ragged_transactions, 36, "the next start builds it again"),
]


@pytest.mark.parametrize(("plant", "upto", "text"), AFTER_A_KILL)
def test_what_a_kill_explains_above_the_recovery_point_is_damage_below_it(
    plant: Plant, upto: int, text: str
) -> None:
    disk = written()
    plant(disk)
    after_a_kill(disk, upto)
    (remark,) = verified(disk).findings
    assert not remark.damage
    assert remark.text.endswith(text)
    after_a_kill(disk, upto + 1)
    (damage,) = verified(disk).findings
    assert damage.damage
    assert damage.text in FOUND.get(getattr(plant, "__name__", ""), damage.text)
    assert not damage.text.endswith(text)


@pytest.mark.parametrize(
    "plant",
    [without_its_log, snapshot_behind_the_end, epoch_behind_the_end, wrong_open_transaction],
)
def test_files_beside_the_log_may_be_behind_or_ahead_after_a_kill(plant: Plant) -> None:
    disk = written()
    plant(disk)
    after_a_kill(disk, 86)
    (finding,) = verified(disk).findings
    assert not finding.damage
    assert finding.text.endswith("; the next start builds it again")


def test_what_was_flushed_may_end_where_the_log_does_and_no_further() -> None:
    disk = written()
    after_a_kill(disk, 86)
    assert verified(disk).findings == []
    after_a_kill(disk, 87)
    assert said(verified(disk)) == [
        "damage GAP t-0: ends at 86, yet all below 87 was flushed: records are missing"
    ]


@pytest.mark.parametrize(
    "name", [file_names.LOG_STARTS, file_names.HIGH_WATERMARKS, file_names.CLEANER_OFFSETS]
)
def test_a_checkpoint_may_say_the_logs_end_and_no_more(name: str) -> None:
    disk = written()
    overwrite(disk, f"/data/{name}", text_files.write_offsets({PLACE: 86}))
    assert verified(disk).findings == []
    overwrite(disk, f"/data/{name}", text_files.write_offsets({PLACE: 87}))
    assert said(verified(disk)) == [
        f"damage CHECKPOINT {name}: says 87 of t-0, whose log ends at 86"
    ]


@pytest.mark.parametrize("name", [GAPS, file_names.CLEANER_OFFSETS])
def test_a_gap_is_known_up_to_the_offset_that_compaction_or_a_repair_noted(name: str) -> None:
    disk = written()
    lost_segment(disk)
    overwrite(disk, f"/data/{name}", text_files.write_offsets({PLACE: 18}))
    assert verified(disk).findings == []
    overwrite(disk, f"/data/{name}", text_files.write_offsets({PLACE: 17}))
    assert said(verified(disk)) == [FOUND["lost_segment"]]


@pytest.mark.parametrize("known", [False, True], ids=["of Kafka's", "of ours"])
def test_offsets_of_an_empty_segment_are_missing_only_where_gaps_would_be_noted(
    known: bool,
) -> None:
    disk = written()
    overwrite(disk, base(9, ".log"), b"")
    if known:
        overwrite(disk, f"/data/{GAPS}", text_files.write_offsets({PLACE: 0}))
    elif disk.exists(f"/data/{GAPS}"):
        disk.remove(f"/data/{GAPS}")
    gaps = [line for line in said(verified(disk)) if line.startswith("damage GAP")]
    assert gaps == ([FOUND["lost_segment"]] if known else [])


def test_a_partition_by_itself_is_judged_by_its_directorys_checkpoints() -> None:
    disk = written()
    flushed_yet_missing(disk)
    report = Report()
    verify_path(disk, PATH, report)
    assert said(report) == [FOUND["flushed_yet_missing"]]
    disk.remove(f"/data/{file_names.META_PROPERTIES}")
    report = Report()
    verify_path(disk, PATH, report)
    assert report.findings == [], "nobody says that these checkpoints are its own"
    report = Report()
    verify_path(disk, "/data", report)
    assert said(report)[-1] == FOUND["flushed_yet_missing"]


def test_beside_a_running_broker_only_the_last_segment_is_spared() -> None:
    for number in (74, 83):
        disk = written()
        overwrite(disk, base(number, ".log"), content(disk, base(number, ".log"))[:-5])
        overwrite(disk, base(number, ".index"), b"\1")
        overwrite(disk, base(36, ".txnindex"), b"")
        points = text_files.write_offsets({PLACE: 83})
        overwrite(disk, f"/data/{file_names.RECOVERY_POINTS}", points)
        found = verified(disk, live=True)
        aborts, *others = reversed(said(found))
        assert aborts == FOUND["forgotten_abort"]
        assert [one.split(": ")[0] for one in reversed(others)] == (
            ["remark BATCH 00000000000000000083.log"]
            if number == 83
            else [
                "damage BATCH 00000000000000000074.log",
                "damage INDEX 00000000000000000074.index",
            ]
        )


def test_progress_is_told_of_every_byte_once() -> None:
    told: list[int] = []
    disk = written()
    report = Report(progress=told.append)
    for _ in verify_directory(disk, "/data", report):
        pass
    assert told == [len(content(disk, path)) for path in segments(disk, ".log")]
    assert report.bytes == sum(told)


def test_progress_within_a_segment_is_told_at_each_mebibyte_read() -> None:
    world = World(config=LogConfig())
    for _ in range(5):
        append(world.log(), bytes((1 << 19) - 61 - 10))
    world.flush(world.log())
    world.directory.close()
    told: list[int] = []
    report = Report(progress=told.append)
    for _ in verify_directory(world.disk, "/data", report):
        pass
    size = len(content(world.disk, base(0, ".log")))
    assert told == [2 * size // 5, 2 * size // 5, size // 5]


def test_a_leader_epoch_that_goes_back_is_told_once_with_its_offset() -> None:
    disk = written()
    path = base(83, ".log")
    overwrite(disk, path, content(disk, path)[:12] + bytes(4) + content(disk, path)[16:])
    assert said(verified(disk)) == [
        "damage EPOCHS 00000000000000000083.log: offset 83 is of leader epoch 0, after 2"
    ]
