"""`log verify` finds every fault that is planted, and none where there is none."""

import struct
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest
from crc32c import crc32c

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.producers.producer_snapshot import read_snapshot, write_snapshot
from headrace.logtools.verify import Kind, Report, verify_directory, verify_file
from headrace.model.nouns import TopicPartition
from headrace.record.batch import Codec
from headrace.testing.disk import SimDisk
from tests.support.log.log import (
    CONFIG,
    PLACE,
    TOPIC_ID,
    World,
    append,
    append_marker,
    content,
    overwrite,
)

PATH = f"/data/{PLACE}"
BEYOND = 1_000_000


def written(config: LogConfig = CONFIG) -> SimDisk:
    """A directory of ours: several segments, transactions, a producer, epochs; cleanly stopped."""
    world = World(config=config)
    log = world.log()
    for number in range(40):
        append(log, b"v" * 40, timestamp=1_780_000_000_000 + number)
    for producer in (1, 2):
        append(log, b"x", producer=(producer, 0, 0), transactional=True)
        append(log, b"y", producer=(producer, 0, 1), transactional=True)
    append_marker(log, 1, commit=False)
    append_marker(log, 2, commit=True)
    for number in range(40):
        append(log, b"w" * 40, timestamp=1_780_000_001_000 + number, epoch=1 + number // 20)
    world.flush(log)
    world.directory.close()
    return world.disk


def flip(disk: SimDisk, path: str, at: int) -> None:
    data = bytearray(content(disk, path))
    data[at] ^= 0x55
    overwrite(disk, path, bytes(data))


def segments(disk: SimDisk, suffix: str) -> list[str]:
    return [f"{PATH}/{name}" for name in disk.list(PATH) if name.endswith(suffix)]


def verified(disk: SimDisk, *, live: bool = False) -> Report:
    report = Report(live=live)
    for _ in verify_directory(disk, "/data", report):
        pass
    return report


def damaged(report: Report) -> set[tuple[Kind, str]]:
    return {(one.kind, PurePosixPath(one.path).name) for one in report.findings if one.damage}


def test_a_directory_of_ours_is_sound() -> None:
    disk = written()
    report = verified(disk)
    assert report.findings == []
    assert (report.partitions, report.batches, report.records) == (1, 86, 86)
    assert report.segments > 5
    assert report.bytes == sum(
        len(content(d, one)) for d in [written()] for one in segments(d, ".log")
    )


def flip_batch(disk: SimDisk) -> str:
    path = segments(disk, ".log")[2]
    flip(disk, path, 100)
    return path


def wrong_count(disk: SimDisk) -> str:
    """A sound checksum over a header that lies about its records."""
    path = segments(disk, ".log")[1]
    data = bytearray(content(disk, path))
    struct.pack_into(">i", data, 57, 2)
    length = struct.unpack_from(">i", data, 8)[0] + 12
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:length])))
    overwrite(disk, path, bytes(data))
    return path


def lost_segment(disk: SimDisk) -> str:
    first, second = segments(disk, ".log")[1:3]
    for suffix in file_names.SEGMENT_SUFFIXES:
        path = first.removesuffix(".log") + suffix
        if disk.exists(path):
            disk.remove(path)
    return second


def shifted_index(disk: SimDisk) -> str:
    path = segments(disk, ".index")[0]
    data = bytearray(content(disk, path))
    data[7] += 1
    overwrite(disk, path, bytes(data))
    return path


def ragged_index(disk: SimDisk) -> str:
    path = segments(disk, ".index")[0]
    overwrite(disk, path, content(disk, path) + b"\x01\x02\x03")
    return path


def missing_index(disk: SimDisk) -> str:
    path = segments(disk, ".timeindex")[0]
    disk.remove(path)
    return path


def wrong_time(disk: SimDisk) -> str:
    path = segments(disk, ".timeindex")[0]
    data = bytearray(content(disk, path))
    data[7] ^= 1
    overwrite(disk, path, bytes(data))
    return path


def short_time_index(disk: SimDisk) -> str:
    path = segments(disk, ".timeindex")[1]
    overwrite(disk, path, content(disk, path)[:-12])
    return path


def forgotten_abort(disk: SimDisk) -> str:
    (path,) = segments(disk, ".txnindex")
    overwrite(disk, path, b"")
    return path


def invented_abort(disk: SimDisk) -> str:
    (path,) = segments(disk, ".txnindex")
    data = bytearray(content(disk, path))
    data[9] ^= 7  # another producer
    overwrite(disk, path, bytes(data))
    return path


def torn_snapshot(disk: SimDisk) -> str:
    path = segments(disk, ".snapshot")[-1]
    overwrite(disk, path, content(disk, path)[:-1])
    return path


def wrong_snapshot(disk: SimDisk) -> str:
    path = segments(disk, ".snapshot")[-1]
    entries = read_snapshot(content(disk, path), path)
    overwrite(disk, path, write_snapshot([one._replace(last_sequence=9) for one in entries]))
    return path


def wrong_epochs(disk: SimDisk) -> str:
    path = f"{PATH}/{file_names.LEADER_EPOCHS}"
    overwrite(disk, path, text_files.write_epochs([(0, 0), (1, 47), (2, 66)]))
    return path


def no_epochs(disk: SimDisk) -> str:
    path = f"{PATH}/{file_names.LEADER_EPOCHS}"
    overwrite(disk, path, b"0\nmany\n")
    return path


def no_topic_id(disk: SimDisk) -> str:
    path = f"{PATH}/{file_names.PARTITION_METADATA}"
    overwrite(disk, path, b"version: 0\ntopic_id: never")
    return path


def far_checkpoint(disk: SimDisk) -> str:
    path = f"/data/{file_names.HIGH_WATERMARKS}"
    overwrite(disk, path, text_files.write_offsets({PLACE: BEYOND}))
    return path


def bad_checkpoint(disk: SimDisk) -> str:
    path = f"/data/{file_names.RECOVERY_POINTS}"
    overwrite(disk, path, b"0\n7\nt 0 1\n")
    return path


def flushed_yet_missing(disk: SimDisk) -> str:
    overwrite(
        disk, f"/data/{file_names.RECOVERY_POINTS}", text_files.write_offsets({PLACE: BEYOND})
    )
    return PATH


def unkept_bound(disk: SimDisk) -> str:
    """Readers of the files were told of records that are not there."""
    path = f"/data/{durable_read_bounds.NAME}"
    body = struct.pack(">16siqqq", TOPIC_ID, PLACE.partition, 0, BEYOND, BEYOND)
    header = b"headrace durable read bounds, version 1\n".ljust(
        durable_read_bounds.SLOT.size, b"\0"
    )
    overwrite(disk, path, header + struct.pack(">I", crc32c(body)) + body)
    return path


def no_identity(disk: SimDisk) -> str:
    path = f"/data/{file_names.META_PROPERTIES}"
    overwrite(disk, path, b"version=0\nbroker.id=zero\n")
    return path


FAULTS: list[tuple[Callable[[SimDisk], str], Kind]] = [
    (flip_batch, Kind.BATCH),
    (wrong_count, Kind.BATCH),
    (lost_segment, Kind.GAP),
    (shifted_index, Kind.INDEX),
    (ragged_index, Kind.INDEX),
    (missing_index, Kind.TIME_INDEX),
    (wrong_time, Kind.TIME_INDEX),
    (short_time_index, Kind.TIME_INDEX),
    (forgotten_abort, Kind.TXN_INDEX),
    (invented_abort, Kind.TXN_INDEX),
    (torn_snapshot, Kind.SNAPSHOT),
    (wrong_snapshot, Kind.SNAPSHOT),
    (wrong_epochs, Kind.EPOCHS),
    (no_epochs, Kind.EPOCHS),
    (no_topic_id, Kind.METADATA),
    (far_checkpoint, Kind.CHECKPOINT),
    (bad_checkpoint, Kind.CHECKPOINT),
    (flushed_yet_missing, Kind.GAP),
    (unkept_bound, Kind.CHECKPOINT),
    (no_identity, Kind.IDENTITY),
]


@pytest.mark.parametrize(("plant", "kind"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_planted_fault_is_found_and_nothing_else(
    plant: Callable[[SimDisk], str], kind: Kind
) -> None:
    disk = written()
    path = plant(disk)
    report = verified(disk)
    assert not report.sound
    assert (kind, PurePosixPath(path).name) in damaged(report)
    # A fault in the log itself may show in what is beside it; one beside it is only that.
    if kind not in {Kind.BATCH, Kind.GAP}:
        assert damaged(report) == {(kind, PurePosixPath(path).name)}


@pytest.mark.parametrize("codec", [one for one in Codec if one is not Codec.NONE])
def test_a_codec_that_does_not_unfold_is_found_though_the_checksum_is_right(codec: Codec) -> None:
    disk = written()
    path = segments(disk, ".log")[0]
    data = bytearray(content(disk, path))
    length = struct.unpack_from(">i", data, 8)[0] + 12
    data[22] |= int(codec)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:length])))
    overwrite(disk, path, bytes(data))
    report = verified(disk)
    assert (Kind.BATCH, PurePosixPath(path).name) in damaged(report)
    assert "do not unpack" in " ".join(one.text for one in report.findings)


def test_a_torn_tail_after_a_kill_is_a_remark_for_the_next_start_cuts_it() -> None:
    disk = written()
    disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    path = segments(disk, ".log")[-1]
    overwrite(disk, path, content(disk, path) + b"\0" * 70)
    report = verified(disk)
    assert report.sound
    assert "torn tail of 70 bytes" in " ".join(one.text for one in report.findings)


def test_the_same_tail_after_a_clean_stop_is_damage() -> None:
    disk = written()
    path = segments(disk, ".log")[-1]
    overwrite(disk, path, content(disk, path) + b"\0" * 70)
    assert (Kind.BATCH, PurePosixPath(path).name) in damaged(verified(disk))


def test_beside_a_running_broker_the_active_end_is_not_judged() -> None:
    disk = written()
    path = segments(disk, ".log")[-1]
    overwrite(disk, path, content(disk, path)[:-5])
    overwrite(disk, f"/data/{file_names.RECOVERY_POINTS}", text_files.write_offsets({PLACE: 80}))
    far_checkpoint(disk)
    report = verified(disk, live=True)
    assert report.sound
    assert any("being written" in one.text for one in report.findings)


def test_damage_below_the_recovery_point_is_damage_after_a_kill_too() -> None:
    disk = written()
    disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    path = flip_batch(disk)
    assert (Kind.BATCH, PurePosixPath(path).name) in damaged(verified(disk))


def test_stale_indexes_above_the_recovery_point_are_remarks_after_a_kill() -> None:
    disk = written()
    disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    disk.remove(f"/data/{file_names.RECOVERY_POINTS}")
    shifted_index(disk)
    report = verified(disk)
    assert report.sound
    assert any("next start builds it again" in one.text for one in report.findings)


def test_partitions_that_disagree_on_their_topics_id_are_found() -> None:
    disk = written()
    other = f"/data/{TopicPartition(PLACE.topic, 1)}"
    disk.make_directory(other)
    overwrite(disk, f"{other}/{file_names.segment_file(0, file_names.LOG)}", b"")
    metadata = text_files.write_partition_metadata(b"another-topic-id")
    overwrite(disk, f"{other}/{file_names.PARTITION_METADATA}", metadata)
    assert damaged(verified(disk)) == {(Kind.METADATA, file_names.PARTITION_METADATA)}


def test_a_single_file_is_judged_by_itself() -> None:
    disk = written()
    index = shifted_index(disk)
    for path, sound in ((index, False), (index.replace(".index", ".timeindex"), True)):
        report = Report()
        verify_file(disk, path, report)
        assert report.sound is sound, path
    for path in (torn_snapshot(disk), no_epochs(disk)):
        report = Report()
        verify_file(disk, path, report)
        assert not report.sound, path


def test_an_index_that_names_a_place_twice_does_not_grow() -> None:
    disk = written()
    path = segments(disk, ".index")[0]
    entries = content(disk, path).rstrip(b"\0")
    entries = entries[: len(entries) // 8 * 8]
    offset, position = struct.unpack(">ii", entries[-8:])
    overwrite(disk, path, entries + struct.pack(">ii", offset + 1, position))
    (finding,) = verified(disk).findings
    assert (finding.damage, finding.kind, finding.text) == (
        True, Kind.INDEX, "its entries do not grow",
    )  # fmt: skip
