"""What `log repair` and `log import` have done is on the disk when they say so."""

from dataclasses import replace

import pytest

from headrace.log import file_names, text_files
from headrace.log.file_names import SEGMENT_SUFFIXES
from headrace.logtools.transfer import Transfer
from headrace.logtools.transfer.rewrite_batches import clear_commits, reset_epochs
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.record import batch as wire
from headrace.testing.clock import SimRandom
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from headrace.wire.kafka.coordinator_records import consumer_offsets
from tests.support.log.log import NOW_MS, PLACE, TOPIC_ID, content, overwrite
from tests.unit.logtools import test_findings as beside
from tests.unit.logtools import test_verify as faults
from tests.unit.logtools.test_repair import repaired
from tests.unit.logtools.test_repair_steps import Plant
from tests.unit.logtools.test_verify import PATH, segments, written

TARGET = "/new"
COMMITS = TopicPartition(OFFSETS_TOPIC, 3)
BUILT_AT_THE_START = SEGMENT_SUFFIXES[1:]
"""Names that need not be durable: the next start builds the files again."""


def tree(disk: SimDisk, path: str = "") -> dict[str, bytes]:
    """All files below a directory."""
    found: dict[str, bytes] = {}
    for name in disk.list(path or "/"):
        inside = f"{path}/{name}"
        if disk.is_directory(inside):
            found |= tree(disk, inside)
        else:
            found[inside] = content(disk, inside)
    return found


def after_a_cut(disk: SimDisk) -> dict[str, bytes]:
    """What is left at least if the power goes now."""
    return tree(next(crash_states(disk, len(disk.ops), 0)))


def left_out(found: dict[str, bytes]) -> dict[str, bytes]:
    return {at: data for at, data in found.items() if not at.endswith(BUILT_AT_THE_START)}


@pytest.mark.parametrize(
    "plant",
    [
        faults.flip_batch, faults.lost_segment, faults.forgotten_abort, faults.torn_snapshot,
        faults.wrong_epochs, faults.no_epochs, faults.no_topic_id, faults.far_checkpoint,
        faults.bad_checkpoint, faults.unkept_bound, beside.without_its_log,
        beside.snapshot_behind_the_end,
    ],
)  # fmt: skip
@pytest.mark.parametrize("truncate", [False, True])
def test_a_power_cut_right_after_a_repair_takes_nothing_of_it_back(
    plant: Plant, truncate: bool
) -> None:
    disk = written()
    plant(disk)
    disk.sync_all("/")
    assert repaired(disk, truncate=truncate).steps or plant is faults.lost_segment
    assert left_out(after_a_cut(disk)) == left_out(tree(disk))


def test_indexes_that_are_built_again_in_place_are_durable() -> None:
    disk = written()
    for path in segments(disk, ".index"):
        faults.flip(disk, path, 0)
    disk.sync_all("/")
    assert len(repaired(disk).steps) == len(segments(disk, ".index"))
    assert after_a_cut(disk) == tree(disk)


def test_no_batch_is_gone_at_any_moment_of_a_repair() -> None:
    """The damaged segment is there under one name or the other, as a whole."""
    disk = written()
    faults.flip_batch(disk)
    disk.sync_all("/")
    before = tree(disk)
    began = len(disk.ops)
    repaired(disk)
    done = tree(disk)
    changed = [at for at in before if at.endswith(".log") and done[at] != before[at]]
    assert len(changed) == 1
    for cut in range(began, len(disk.ops) + 1):
        for left in crash_states(disk, cut, 5, samples=2):
            found = tree(left)
            old = {found.get(changed[0]), found.get(f"{changed[0]}.damaged")}
            assert before[changed[0]] in old, cut
            assert found.get(changed[0]) in (None, before[changed[0]], done[changed[0]]), cut


def test_records_that_were_cut_away_or_flushed_late_are_durable_before_the_checkpoints_say_so() -> (
    None
):
    disk = written()
    faults.flip_batch(disk)
    disk.sync_all("/")
    began = len(disk.ops)
    repaired(disk, truncate=True)
    shorter = content(disk, f"{PATH}/{18:020d}.log")
    name = f"/data/{file_names.RECOVERY_POINTS}"
    for cut in range(began, len(disk.ops) + 1):
        found = tree(next(crash_states(disk, cut, 0)))
        if text_files.read_offsets(found[name], name)[PLACE] == 18:
            assert found[f"{PATH}/{18:020d}.log"] == shorter


def test_a_log_that_ends_before_its_recovery_point_is_synced_and_no_other() -> None:
    def synced(plant: Plant | None, *, dry_run: bool = False) -> int:
        disk = written()
        if plant is not None:
            plant(disk)
        before = disk.syncs
        repaired(disk, dry_run=dry_run)
        return disk.syncs - before

    many = len(segments(written(), ".log"))
    assert synced(None) == 0
    assert synced(faults.flushed_yet_missing, dry_run=True) == 0
    assert synced(faults.flushed_yet_missing) >= many
    assert synced(faults.shifted_index) < many


# --- transfers ------------------------------------------------------------------------------------


def transfer_of(disk: SimDisk, *, anew: bool = False) -> Transfer:
    """A transfer that copies durably, into a directory that is durable as it is."""

    def copied(source: str, target: str, closed: bool) -> None:
        del closed
        overwrite(disk, target, content(disk, source))
        file = disk.open(target)
        file.sync()
        file.close()

    disk.make_directory(TARGET)
    disk.sync_all("/")
    return Transfer(disk, SimRandom(), "/data", TARGET, copied, anew)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_a_partition_that_was_brought_is_whole_whenever_the_power_goes(
    anew: bool, empty: bool
) -> None:
    disk = written()
    if empty:
        overwrite(disk, f"{TARGET}/{PLACE}/old", b"")
    transfer = transfer_of(disk, anew=anew)
    began = len(disk.ops)
    transfer.bring(PLACE, PATH, TOPIC_ID if anew else None)
    wanted = tree(disk, f"{TARGET}/{PLACE}")
    assert wanted.keys() == tree(disk, PATH).keys() or len(wanted) > 10
    for cut in range(began, len(disk.ops) + 1):
        left = next(crash_states(disk, cut, 0))
        if left.exists(f"{TARGET}/{PLACE}/{0:020d}.log"):
            assert tree(left, f"{TARGET}/{PLACE}") == wanted, cut
    assert after_a_cut(disk) == tree(disk)


@pytest.mark.parametrize("clean", [True, False])
def test_the_checkpoints_of_a_transfer_and_the_marker_are_durable(clean: bool) -> None:
    disk = written()
    if not clean:
        disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
        overwrite(disk, f"{TARGET}/{file_names.CLEAN_SHUTDOWN}", text_files.write_clean_shutdown())
    transfer = transfer_of(disk)
    transfer.bring(PLACE, PATH, None)
    assert transfer.finish() is clean
    assert disk.exists(f"{TARGET}/{file_names.CLEAN_SHUTDOWN}") is clean
    assert after_a_cut(disk) == tree(disk)


def test_epochs_that_begin_again_are_durable_in_the_batches_and_beside_them() -> None:
    disk = written()
    disk.sync_all("/")
    reset_epochs(disk, PATH)
    assert after_a_cut(disk) == tree(disk)
    assert content(disk, f"{PATH}/{file_names.LEADER_EPOCHS}") == b"0\n1\n0 0\n"


def commit(partition: int, **of_a_cluster: int | bytes) -> tuple[bytes, bytes]:
    """Key and value of a commit, of epoch and topic id where they are given."""
    key = consumer_offsets.OffsetKey("group", "topic", partition)
    value = consumer_offsets.OffsetValue(7 + partition, -1, "noted", 5, version=4)
    value = replace(value, **of_a_cluster)  # type: ignore[arg-type]
    return consumer_offsets.encode_key(key), consumer_offsets.encode_offset_value(value)


def test_commits_lose_epoch_and_topic_id_and_all_else_is_as_it_was_and_durable() -> None:
    group = consumer_offsets.encode_key(consumer_offsets.GroupKey("group"))
    ours = commit(1, leader_epoch=3, topic_id=TOPIC_ID)
    others = [commit(2), (group, b"its value"), (b"", b"no key of ours"), (ours[0], b"no value")]

    def batches_with(first: tuple[bytes, bytes]) -> bytes:
        pairs: list[tuple[bytes | None, bytes | None]] = [first, *others, (ours[0], None)]
        pairs.append((None, ours[1]))
        records = [
            wire.Record(20 + 2 * at, NOW_MS + at, key, value, ())
            for at, (key, value) in enumerate(pairs)
        ]
        return wire.build(
            records, base_offset=20, compression=wire.Codec.GZIP, producer_id=4,
            producer_epoch=0, base_sequence=9, transactional=True, leader_epoch=6,
            keep_offsets=True,
        ) + wire.build([wire.new_record(first[1], first[0])], base_offset=50)  # fmt: skip

    disk = SimDisk()
    where = f"/data/{COMMITS}"
    path = f"{where}/{20:020d}.log"
    overwrite(disk, path, batches_with(ours))
    disk.sync_all("/")
    clear_commits(disk, where)
    assert content(disk, path) == batches_with(commit(1))
    assert after_a_cut(disk)[path] == batches_with(commit(1))
    assert disk.list(where) == [f"{20:020d}.{end}" for end in ("index", "log", "timeindex")]
    assert after_a_cut(disk).keys() == tree(disk).keys()
