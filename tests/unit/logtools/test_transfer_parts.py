"""A transfer's parts: which files come along, which checkpoints, and whose epochs they are of."""

from dataclasses import dataclass

import pytest

from headrace.log import file_names, text_files
from headrace.log.segment.scan import headers
from headrace.logtools.transfer import Transfer, TransferError, check_room, empty_partitions
from headrace.logtools.transfer.rewrite_batches import clear_commits, reset_epochs
from headrace.logtools.verify import Report
from headrace.model.nouns import TopicPartition
from headrace.testing.clock import SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, TOPIC_ID, content, overwrite
from tests.unit.logtools import test_findings as beside
from tests.unit.logtools.test_verify import PATH, segments, written

TARGET = "/new"
OTHER = TopicPartition("other", 3)


@dataclass
class Copies:
    """Copies files, and knows which were said never to change again."""

    disk: SimDisk
    closed: list[str]

    def __call__(self, source: str, target: str, closed: bool) -> None:
        overwrite(self.disk, target, content(self.disk, source))
        if closed:
            self.closed.append(source)


def brought(disk: SimDisk, *, anew: bool = False) -> tuple[Transfer, Copies]:
    if not disk.exists(TARGET):
        disk.make_directory(TARGET)
    copies = Copies(disk, [])
    transfer = Transfer(disk, SimRandom(), "/data", TARGET, copies, anew)
    transfer.bring(PLACE, PATH, TOPIC_ID if anew else None)
    return transfer, copies


def said(disk: SimDisk, name: str) -> dict[TopicPartition, int]:
    return dict(text_files.read_offsets(content(disk, f"{TARGET}/{name}"), name))


def test_what_repair_moved_aside_and_what_is_of_no_segment_stays_behind() -> None:
    disk = written()
    beside.left_over(disk)
    overwrite(disk, f"{PATH}/notes", b"x")
    _, copies = brought(disk)
    names = disk.list(f"{TARGET}/{PLACE}")
    wanted = [name for name in disk.list(PATH) if not name.endswith(".damaged")]
    assert names == [name for name in wanted if name != "notes"]
    assert copies.closed == segments(disk, ".log")[:-1]
    assert disk.list(TARGET) == [str(PLACE)]
    assert disk.open_files == 0


def test_checkpoints_of_what_was_brought_are_the_sources_and_of_others_the_targets() -> None:
    disk = written()
    disk.make_directory(TARGET)
    stale = text_files.write_offsets({PLACE: 999, OTHER: 7})
    for name in (file_names.CLEANER_OFFSETS, file_names.HIGH_WATERMARKS):
        overwrite(disk, f"{TARGET}/{name}", stale)
    transfer, _ = brought(disk)
    assert transfer.finish()
    assert said(disk, file_names.HIGH_WATERMARKS) == {PLACE: 86, OTHER: 7}
    assert said(disk, file_names.CLEANER_OFFSETS) == {OTHER: 7}, "the source has none of it"
    assert said(disk, file_names.RECOVERY_POINTS) == {PLACE: 86}
    assert disk.exists(f"{TARGET}/{file_names.CLEAN_SHUTDOWN}")
    report = Report()
    transfer.verify(report)
    assert (report.findings, report.partitions) == ([], 1)


@pytest.mark.parametrize(
    ("source_clean", "target", "clean"),
    [
        (True, "fresh", True),
        (True, "clean", True),
        (True, "killed", False),
        (False, "fresh", False),
        (False, "clean", False),
    ],
)
def test_the_next_start_believes_all_files_only_where_both_brokers_stopped_cleanly(
    source_clean: bool, target: str, clean: bool
) -> None:
    disk = written()
    disk.make_directory(TARGET)
    marker = f"{TARGET}/{file_names.CLEAN_SHUTDOWN}"
    if not source_clean:
        disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    if target != "fresh":
        overwrite(disk, f"{TARGET}/{file_names.RECOVERY_POINTS}", text_files.write_offsets({}))
    if target == "clean":
        overwrite(disk, marker, text_files.write_clean_shutdown())
    transfer, _ = brought(disk)
    assert transfer.finish() is clean
    assert disk.exists(marker) is clean


def test_into_another_cluster_all_is_of_epoch_0_from_the_first_offset_on() -> None:
    disk = written()
    beside.first_segment_lost(disk)
    brought(disk, anew=True)
    where = f"{TARGET}/{PLACE}"
    path = f"{where}/{file_names.LEADER_EPOCHS}"
    assert text_files.read_epochs(content(disk, path), path) == [(0, 9)]
    metadata = f"{where}/{file_names.PARTITION_METADATA}"
    assert text_files.read_partition_metadata(content(disk, metadata), metadata) == TOPIC_ID
    for source in segments(disk, ".log"):
        file = disk.open(source.replace(PATH, where), writable=False)
        found = list(headers(file.read, 0, file.size(), source))
        file.close()
        assert {header.leader_epoch for _, header in found} == {0}
    disk.make_directory("/empty")
    reset_epochs(disk, "/empty")
    assert content(disk, f"/empty/{file_names.LEADER_EPOCHS}") == b"0\n0\n"
    assert disk.open_files == 0


def test_commits_are_rewritten_with_their_indexes_and_what_is_no_commit_stays() -> None:
    disk = written()
    before = {path: content(disk, path) for path in segments(disk, ".log")}
    overwrite(disk, f"{segments(disk, '.log')[0]}.tmp", b"left from before" * 1000)
    for path in segments(disk, ".index"):
        disk.remove(path)
    clear_commits(disk, PATH)
    assert {path: content(disk, path) for path in segments(disk, ".log")} == before
    assert len(segments(disk, ".index")) == len(before)
    assert disk.open_files == 0


@pytest.mark.parametrize(
    ("topic", "remedy"),
    [
        ("t", "or leave it out with --topic"),
        ("__consumer_offsets", "leave the consumer groups' offsets out with --no-offsets"),
        ("__transaction_state", "name a new directory"),
    ],
)
def test_a_partition_with_records_there_is_refused_with_what_helps(topic: str, remedy: str) -> None:
    disk = written()
    disk.rename(PATH, f"/data/{topic}-0")
    with pytest.raises(TransferError, match=f"{topic}-0: holds records already; .*{remedy}"):
        check_room(disk, "/data", {TopicPartition(topic, 0): PATH})


def test_only_a_partition_without_records_makes_room() -> None:
    disk = written()
    assert empty_partitions(disk, "/data") == {}
    with pytest.raises(TransferError, match="t-0: holds records already"):
        check_room(disk, "/data", {PLACE: PATH})
    check_room(disk, "/data", {OTHER: "elsewhere"})
    for path in segments(disk, ".log"):
        overwrite(disk, path, b"")
    assert empty_partitions(disk, "/data") == {PLACE: TOPIC_ID}
    check_room(disk, "/data", {PLACE: PATH})
    assert disk.open_files == 0


def test_an_empty_partition_is_replaced_and_nothing_of_it_is_left() -> None:
    disk = written()
    disk.make_directory(f"{TARGET}/{PLACE}")
    overwrite(disk, f"{TARGET}/{PLACE}/old", b"x")
    brought(disk)
    assert disk.list(TARGET) == [str(PLACE)]
    assert "old" not in disk.list(f"{TARGET}/{PLACE}")
