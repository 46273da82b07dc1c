"""What `log verify` says, to the word: an operator acts on the file, the offsets and the reason."""

import struct
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from headrace.log import file_names, text_files
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.producers.producer_snapshot import read_snapshot, write_snapshot
from headrace.log.segment.transaction_index import ENTRY
from headrace.logtools.verify import Report
from headrace.model.nouns import TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, content, overwrite
from tests.unit.logtools.test_verify import (
    FAULTS,
    PATH,
    segments,
    verified,
    written,
)

Plant = Callable[[SimDisk], object]


def said(report: Report) -> list[str]:
    """Every finding in one line: damage or remark, kind, file, text."""
    return [
        f"{'damage' if found.damage else 'remark'} {found.kind.name} "
        f"{PurePosixPath(found.path).name}: {found.text}"
        for found in report.findings
    ]


def base(number: int, suffix: str) -> str:
    return f"{PATH}/{number:020d}{suffix}"


FOUND = {
    "flip_batch": "damage BATCH 00000000000000000018.log: at byte 0, after offset 17: "
    "the checksum does not match; 972 bytes lie from there on",
    "wrong_count": "damage BATCH 00000000000000000009.log: at byte 0, after offset 8: its records "
    "do not unpack: CORRUPT_MESSAGE: a record does not parse: index out of range; "
    "972 bytes lie from there on",
    "lost_segment": "damage GAP 00000000000000000018.log: offsets 9 to 17 are missing before it, "
    "and nothing says that they were deleted",
    "shifted_index": "damage INDEX 00000000000000000000.index: says offset 2 at byte 217, "
    "where no batch begins",
    "ragged_index": "damage INDEX 00000000000000000000.index: 35 bytes are no whole entries of 8",
    "missing_index": "damage TIME_INDEX 00000000000000000000.timeindex: is missing beside "
    "972 bytes of log",
    "wrong_time": "damage TIME_INDEX 00000000000000000000.timeindex: says 1780000000003 for "
    "offset 2, the greatest up to there is 1780000000002",
    "short_time_index": "damage TIME_INDEX 00000000000000000009.timeindex: ends at 1780000000015, "
    "the log at 1780000000017",
    "forgotten_abort": "damage TXN_INDEX 00000000000000000036.txnindex: lacks the transaction "
    "aborted at offset 44",
    "invented_abort": "damage TXN_INDEX 00000000000000000036.txnindex: lacks the transaction "
    "aborted at offset 44",
    "torn_snapshot": "damage SNAPSHOT 00000000000000000086.snapshot: checksum of the producer "
    "snapshot does not match",
    "wrong_snapshot": "damage SNAPSHOT 00000000000000000086.snapshot: producer 1: last sequence 9, "
    "by the log 1",
    "wrong_epochs": "damage EPOCHS leader-epoch-checkpoint: offset 46 is of epoch 1 in the log, "
    "here of 0",
    "no_epochs": "damage EPOCHS leader-epoch-checkpoint: 'many' is not a number",
    "no_topic_id": "damage METADATA partition.metadata: no topic_id line with a valid uuid",
    "far_checkpoint": "damage CHECKPOINT replication-offset-checkpoint: says 1000000 of t-0, "
    "whose log ends at 86",
    "bad_checkpoint": "damage CHECKPOINT recovery-point-offset-checkpoint: not 7 lines of 3 fields",
    "flushed_yet_missing": "damage GAP t-0: ends at 86, yet all below 1000000 was flushed: "
    "records are missing",
    "unkept_bound": "damage CHECKPOINT durable-read-bounds: says that t-0 is flushed up to "
    "1000000, its log ends at 86",
    "no_identity": "damage IDENTITY meta.properties: invalid literal for int() with base 10: "
    "'zero'",
}


@pytest.mark.parametrize("plant", [plant for plant, _ in FAULTS], ids=lambda plant: plant.__name__)
def test_a_fault_is_told_once_with_its_file_its_offsets_and_its_reason(plant: Plant) -> None:
    disk = written()
    plant(disk)
    assert said(verified(disk)) == [FOUND[plant.__name__]]


def without_identity(disk: SimDisk) -> None:
    disk.remove(f"/data/{file_names.META_PROPERTIES}")


def unreadable_marker(disk: SimDisk) -> None:
    overwrite(disk, f"/data/{file_names.CLEAN_SHUTDOWN}", b"{")


def unreadable_bounds(disk: SimDisk) -> None:
    overwrite(disk, f"/data/{durable_read_bounds.NAME}", b"nothing of the kind")


def deleted_partition(disk: SimDisk) -> None:
    disk.make_directory(f"/data/gone-1.{'0' * 32}-delete")


def flushed_partition_gone(disk: SimDisk) -> None:
    offsets = {PLACE: 86, TopicPartition("gone", 1): 12, TopicPartition("gone", 0): 0}
    overwrite(disk, f"/data/{file_names.RECOVERY_POINTS}", text_files.write_offsets(offsets))


def no_log_at_all(disk: SimDisk) -> None:
    for path in segments(disk, ".log"):
        disk.remove(path)
    for suffix in (".timeindex", ".index", ".txnindex", ".snapshot"):
        for path in segments(disk, suffix)[1:]:
            disk.remove(path)
    disk.remove(f"{PATH}/{file_names.LEADER_EPOCHS}")
    disk.remove(f"/data/{file_names.RECOVERY_POINTS}")
    disk.remove(f"/data/{file_names.HIGH_WATERMARKS}")


def segments_overlap(disk: SimDisk) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        disk.rename(base(83, suffix), base(80, suffix))
    disk.remove(base(83, ".snapshot"))
    for path in segments(disk, "index")[-2:]:
        overwrite(disk, path, b"")
    disk.remove(base(80, ".timeindex"))


def snapshot_behind_the_end(disk: SimDisk) -> None:
    overwrite(disk, base(87, ".snapshot"), write_snapshot([]))


def epoch_behind_the_end(disk: SimDisk) -> None:
    epochs = text_files.write_epochs([(0, 0), (1, 46), (2, 66), (3, 86), (4, 87)])
    overwrite(disk, f"{PATH}/{file_names.LEADER_EPOCHS}", epochs)


def left_over(disk: SimDisk) -> None:
    for name in (".log.deleted", ".log.cleaned", ".index.swap", ".log.damaged"):
        overwrite(disk, base(0, name), b"")


def without_its_log(disk: SimDisk) -> None:
    overwrite(disk, base(7, ".index"), b"")


def first_segment_lost(disk: SimDisk) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(base(0, suffix))


def time_beyond(disk: SimDisk) -> None:
    path = base(9, ".timeindex")
    overwrite(disk, path, content(disk, path) + struct.pack(">qi", 1_790_000_000_000, 9))


def strange_transactions(disk: SimDisk) -> None:
    path = base(36, ".txnindex")
    overwrite(disk, path, content(disk, path) + ENTRY.pack(0, 9, 40, 41, 40))


def transaction_of_nobody(disk: SimDisk) -> None:
    path = base(36, ".txnindex")
    overwrite(disk, path, content(disk, path) + ENTRY.pack(0, 9, 45, 46, 45))


def transaction_behind_its_segment(disk: SimDisk) -> None:
    path = base(36, ".txnindex")
    overwrite(disk, path, content(disk, path) + ENTRY.pack(0, 9, 45, 47, 45))


def ragged_transactions(disk: SimDisk) -> None:
    path = base(36, ".txnindex")
    overwrite(disk, path, content(disk, path)[:-1])


def wrong_open_transaction(disk: SimDisk) -> None:
    path = base(86, ".snapshot")
    entries = read_snapshot(content(disk, path), path)
    entries[1] = entries[1]._replace(current_txn_first_offset=42)
    overwrite(disk, path, write_snapshot(entries))


BESIDES: list[tuple[Plant, list[str]]] = [
    (
        without_identity,
        [
            "remark IDENTITY meta.properties: is missing, so the directory's owner is unknown",
        ],
    ),
    (
        unreadable_marker,
        [
            "damage CHECKPOINT .kafka_cleanshutdown: not JSON",
        ],
    ),
    (
        unreadable_bounds,
        [
            "remark CHECKPOINT durable-read-bounds: not a durable-read-bounds file of version 1",
        ],
    ),
    (
        deleted_partition,
        [
            "remark LEFTOVER gone-1.00000000000000000000000000000000-delete: a deleted "
            "partition; the next start removes it",
        ],
    ),
    (
        flushed_partition_gone,
        [
            "damage GAP gone-1: is gone, and with it the offsets up to 11 that were flushed",
        ],
    ),
    (
        no_log_at_all,
        [
            "damage GAP 00000000000000000000.index: has no 00000000000000000000.log beside it",
            "damage GAP 00000000000000000000.timeindex: has no 00000000000000000000.log beside it",
            "damage GAP 00000000000000000036.txnindex: has no 00000000000000000036.log beside it",
            "damage SNAPSHOT 00000000000000000009.snapshot: is of offset 9, the log ends at 0",
            "damage GAP t-0: has no .log at all",
        ],
    ),
    (
        segments_overlap,
        [
            "damage GAP 00000000000000000080.log: begins at 80, the segment before ends at 83",
            "damage TIME_INDEX 00000000000000000080.timeindex: is missing beside 324 bytes of log",
        ],
    ),
    (
        snapshot_behind_the_end,
        [
            "damage SNAPSHOT 00000000000000000087.snapshot: is of offset 87, the log ends at 86",
        ],
    ),
    (
        epoch_behind_the_end,
        [
            "damage EPOCHS leader-epoch-checkpoint: epoch 4 begins at 87, the log ends at 86",
        ],
    ),
    (
        left_over,
        [
            "remark LEFTOVER 00000000000000000000.index.swap: left by a deletion or "
            "compaction; the next start sees to it",
            "remark LEFTOVER 00000000000000000000.log.cleaned: left by a deletion or "
            "compaction; the next start sees to it",
            "remark LEFTOVER 00000000000000000000.log.damaged: moved aside by repair",
            "remark LEFTOVER 00000000000000000000.log.deleted: left by a deletion or "
            "compaction; the next start sees to it",
        ],
    ),
    (
        without_its_log,
        [
            "damage GAP 00000000000000000007.index: has no 00000000000000000007.log beside it",
        ],
    ),
    (
        first_segment_lost,
        [
            "damage GAP 00000000000000000009.log: offsets 0 to 8 are missing before it",
        ],
    ),
    (
        time_beyond,
        [
            "damage TIME_INDEX 00000000000000000009.timeindex: says 1790000000000 for offset "
            "18, which is not in the log",
        ],
    ),
    (
        strange_transactions,
        [
            "damage TXN_INDEX 00000000000000000036.txnindex: its transactions do not end in "
            "this segment, one after the other",
        ],
    ),
    (
        transaction_of_nobody,
        [
            "damage TXN_INDEX 00000000000000000036.txnindex: names a transaction aborted at "
            "46, the log does not",
        ],
    ),
    (
        transaction_behind_its_segment,
        [
            "damage TXN_INDEX 00000000000000000036.txnindex: its transactions do not end in "
            "this segment, one after the other",
        ],
    ),
    (
        ragged_transactions,
        [
            "damage TXN_INDEX 00000000000000000036.txnindex: 33 bytes are not whole entries",
        ],
    ),
    (
        wrong_open_transaction,
        [
            "damage SNAPSHOT 00000000000000000086.snapshot: producer 2: current txn first "
            "offset 42, by the log -1",
        ],
    ),
]


@pytest.mark.parametrize(("plant", "wanted"), BESIDES, ids=lambda one: getattr(one, "__name__", ""))
def test_what_lies_beside_the_log_is_told_to_the_word(plant: Plant, wanted: list[str]) -> None:
    disk = written()
    plant(disk)
    assert said(verified(disk)) == wanted
