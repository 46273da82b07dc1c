"""What `log repair` does, to the byte, and what it says of it, to the word."""

from collections.abc import Callable

import pytest

from headrace.log import file_names, text_files
from headrace.logtools.repair.salvage import _holes, sound_stretches
from headrace.model.nouns import TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, TOPIC_ID, content, overwrite
from tests.unit.logtools import test_findings as beside
from tests.unit.logtools import test_verify as faults
from tests.unit.logtools.test_repair import repaired, snapshot_of
from tests.unit.logtools.test_verify import PATH, flip, segments, verified, written

AGAIN = "built again from the log"
EPOCHS = f"{PATH}/{file_names.LEADER_EPOCHS}: {AGAIN}"
NOBODY = "nobody has them any more"
SNAPSHOT = f"moved aside; the producers at the log's end go to {PATH}/00000000000000000086.snapshot"
Plant = Callable[[SimDisk], object]

STEPS: list[tuple[Plant, list[str], list[str]]] = [
    (
        faults.flip_batch,
        [
            f"{PATH}/00000000000000000018.log: moved aside, 864 of 972 bytes rewritten; "
            "lost are offsets 18 to 18",
            f"{PATH}/00000000000000000018.index: {AGAIN}",
        ],
        [],
    ),
    (
        faults.lost_segment,
        [EPOCHS],
        [
            f"{PATH}/00000000000000000018.log: offsets 9 to 17 are missing before it, and nothing "
            f"says that they were deleted: {NOBODY}"
        ],
    ),
    (faults.shifted_index, [f"{PATH}/00000000000000000000.index: {AGAIN}"], []),
    (faults.missing_index, [f"{PATH}/00000000000000000000.timeindex: {AGAIN}"], []),
    (faults.forgotten_abort, [f"{PATH}/00000000000000000036.txnindex: {AGAIN}"], []),
    (faults.torn_snapshot, [f"{PATH}/00000000000000000086.snapshot: {SNAPSHOT}"], []),
    (faults.no_epochs, [EPOCHS], []),
    (
        faults.no_topic_id,
        [
            f"{PATH}/{file_names.PARTITION_METADATA}: moved aside; the broker knows the topic's id "
            "and rewrites it"
        ],
        [],
    ),
    (
        faults.far_checkpoint,
        [
            f"/data/{file_names.HIGH_WATERMARKS}: brought down to where the logs end: "
            "t-0 1000000 -> 86"
        ],
        [],
    ),
    (
        faults.bad_checkpoint,
        [
            f"/data/{file_names.RECOVERY_POINTS}: moved aside; the next start works out again "
            "what it said"
        ],
        [],
    ),
    (
        faults.flushed_yet_missing,
        [
            EPOCHS,
            f"/data/{file_names.RECOVERY_POINTS}: brought down to where the logs end: "
            "t-0 1000000 -> 86",
        ],
        [f"{PATH}: ends at 86, yet all below 1000000 was flushed: records are missing: {NOBODY}"],
    ),
    (
        faults.unkept_bound,
        ["/data/durable-read-bounds: moved aside; the next start writes a new one"],
        [],
    ),
    (
        faults.no_identity,
        [],
        [
            "/data/meta.properties: /data/meta.properties: invalid literal for int() with base 10: "
            "'zero'; write version=0, broker.id and cluster.id into it by hand"
        ],
    ),
    (
        beside.first_segment_lost,
        [EPOCHS],
        [f"{PATH}/00000000000000000009.log: offsets 0 to 8 are missing before it: {NOBODY}"],
    ),
    (
        beside.snapshot_behind_the_end,
        [f"{PATH}/00000000000000000087.snapshot: {SNAPSHOT}"],
        [],
    ),
    (beside.without_its_log, [f"{PATH}/00000000000000000007.index: moved aside"], []),
    (
        beside.flushed_partition_gone,
        [f"/data/{file_names.RECOVERY_POINTS}: brought down to where the logs end: gone-1 12 -> 0"],
        [f"/data/gone-1: is gone, with the offsets up to 11: {NOBODY}"],
    ),
]


@pytest.mark.parametrize(
    ("plant", "steps", "unmended"), STEPS, ids=[plant.__name__ for plant, _, _ in STEPS]
)
def test_every_step_is_told_with_its_file_and_no_file_stays_open(
    plant: Plant, steps: list[str], unmended: list[str]
) -> None:
    disk = written()
    plant(disk)
    left_open = disk.open_files
    mending = repaired(disk)
    assert (mending.steps, mending.unmended) == (steps, unmended)
    assert disk.open_files == left_open
    again = repaired(disk)
    assert again.steps == []


def test_a_cut_says_what_goes_and_takes_snapshots_and_checkpoints_along() -> None:
    disk = written()
    faults.flip_batch(disk)
    mending = repaired(disk, truncate=True)
    assert mending.steps == [
        f"{PATH}/00000000000000000018.log: cut at byte 0: 7128 bytes go, 7 later segments with "
        "them, the log ends at offset 18 instead of 86: up to 68 sound records behind the bad "
        "batch are lost",
        f"{PATH}/00000000000000000018.index: {AGAIN}",
        f"{PATH}/00000000000000000018.timeindex: {AGAIN}",
        f"{PATH}/00000000000000000086.snapshot: moved aside; the producers at the log's end go to "
        f"{PATH}/00000000000000000018.snapshot",
        EPOCHS,
        f"/data/{file_names.RECOVERY_POINTS}: brought down to where the logs end: t-0 86 -> 18",
        f"/data/{file_names.HIGH_WATERMARKS}: brought down to where the logs end: t-0 86 -> 18",
    ]
    assert {name.split(".")[0] for name in disk.list(PATH) if name[0] == "0"} == {
        f"{base:020d}" for base in (0, 9, 18, 86)
    }


@pytest.mark.parametrize(
    ("plant", "suffix"),
    [
        (faults.forgotten_abort, ".txnindex"),
        (faults.invented_abort, ".txnindex"),
        (faults.torn_snapshot, ".snapshot"),
        (faults.wrong_snapshot, ".snapshot"),
        (faults.wrong_epochs, file_names.LEADER_EPOCHS),
        (faults.no_epochs, file_names.LEADER_EPOCHS),
    ],
)
def test_what_is_built_again_is_what_was_there(plant: Plant, suffix: str) -> None:
    disk = written()
    before = snapshot_of(disk)
    plant(disk)
    repaired(disk)
    after = snapshot_of(disk)
    for path, data in before.items():
        if path.startswith(PATH) and path.endswith(suffix):
            assert after[path] == data, path
    if suffix == file_names.LEADER_EPOCHS:
        assert text_files.read_epochs(after[f"{PATH}/{suffix}"], suffix) == [
            (0, 0), (1, 46), (2, 66),
        ]  # fmt: skip


def test_epochs_of_offsets_that_are_lost_go_with_them() -> None:
    disk = written()
    beside.first_segment_lost(disk)
    repaired(disk)
    path = f"{PATH}/{file_names.LEADER_EPOCHS}"
    assert text_files.read_epochs(content(disk, path), path) == [(0, 9), (1, 46), (2, 66)]


def test_a_topic_id_is_written_anew_where_another_partition_of_the_topic_tells_it() -> None:
    disk = written()
    other = f"/data/{TopicPartition(PLACE.topic, 1)}"
    disk.make_directory(other)
    overwrite(disk, f"{other}/{file_names.segment_file(0, file_names.LOG)}", b"")
    path = f"{other}/{file_names.PARTITION_METADATA}"
    overwrite(disk, path, b"never")
    mending = repaired(disk)
    assert mending.steps == [
        f"{path}: moved aside; rewritten with topic id {text_files.encode_uuid(TOPIC_ID)}"
    ]
    assert content(disk, path) == text_files.write_partition_metadata(TOPIC_ID)
    assert content(disk, f"{path}.damaged") == b"never"
    overwrite(disk, path, b"again")
    repaired(disk)
    overwrite(disk, path, b"and again")
    repaired(disk)
    assert content(disk, f"{path}.2.damaged") == b"again"
    assert content(disk, f"{path}.3.damaged") == b"and again"


def test_the_next_start_forgets_what_it_knew_of_logs_that_were_repaired() -> None:
    disk = written()
    witness = "/data/headrace-logs-at-rest"
    assert disk.exists(witness)
    repaired(disk)
    assert disk.exists(witness), "nothing was done"
    faults.shifted_index(disk)
    repaired(disk, dry_run=True)
    assert disk.exists(witness)
    repaired(disk)
    assert not disk.exists(witness)


def test_a_gap_that_was_said_is_allowed_from_then_on_and_no_other() -> None:
    disk = written()
    faults.lost_segment(disk)
    repaired(disk)
    noted = text_files.read_offsets(content(disk, "/data/headrace-gap-offset-checkpoint"), "")
    assert noted == {PLACE: 18}
    assert verified(disk).findings == []


SIZE = 108
"""Of each batch of a segment of nine."""


@pytest.mark.parametrize(
    ("bad", "stretches"),
    [
        ([0], [(108, 864, 10, 18)]),
        ([8], [(0, 864, 9, 17)]),
        ([4], [(0, 432, 9, 13), (540, 432, 14, 18)]),
        ([1, 2, 7], [(0, 108, 9, 10), (324, 432, 12, 16), (864, 108, 17, 18)]),
        (list(range(9)), []),
    ],
)
def test_sound_batches_are_found_whatever_lies_between(
    bad: list[int], stretches: list[tuple[int, int, int, int]]
) -> None:
    disk = written()
    path = segments(disk, ".log")[1]
    assert len(content(disk, path)) == 9 * SIZE
    for number in bad:
        flip(disk, path, number * SIZE + 80)
    file = disk.open(path, writable=False)
    assert list(sound_stretches(file, 9 * SIZE, 9, 18)) == stretches
    file.close()


def test_only_offsets_of_the_segment_are_taken_and_only_whole_batches() -> None:
    disk = written()
    path = segments(disk, ".log")[1]
    file = disk.open(path, writable=False)
    assert list(sound_stretches(file, 9 * SIZE, 9, 17)) == [(0, 864, 9, 17)]
    assert list(sound_stretches(file, 9 * SIZE - 1, 9, 18)) == [(0, 864, 9, 17)]
    assert list(sound_stretches(file, 9 * SIZE, 10, 18)) == [(108, 864, 10, 18)]
    assert list(sound_stretches(file, 0, 9, 18)) == []
    file.close()


def test_behind_a_log_whose_last_batch_is_sound_nothing_is_said_to_be_lost() -> None:
    stretches = [(0, 100, 0, 10), (150, 100, 12, 20)]
    assert _holes(stretches, 0, 1 << 62, 250) == "offsets 10 to 11"
    assert _holes([(0, 250, 0, 20)], 0, 1 << 62, 250) == "no offsets"
    lost = "offsets all from 20 on (new records will be given these offsets again)"
    assert _holes([(0, 250, 0, 20)], 0, 1 << 62, 251) == lost
    assert _holes([], 7, 1 << 62, 1).startswith("offsets all from 7 on ")
