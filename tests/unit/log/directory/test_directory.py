"""A log directory: lock, identity, checkpoints, coming and going of partitions, leftovers."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.log_directory import LogDirectory, read_identity
from headrace.log.directory.new_log import NewLog
from headrace.log.directory.periods import Periods
from headrace.model.errors import ConfigError, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.clock import SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import (
    CONFIG,
    NOW_MS,
    PLACE,
    TOPIC_ID,
    World,
    append,
    content,
    overwrite,
    values,
)


def test_a_directory_in_use_is_refused() -> None:
    world = World()
    with pytest.raises(ConfigError, match="in use"):
        World(world.disk)
    world.close()
    World(world.disk).close()


@pytest.mark.parametrize(("broker", "cluster"), [(1, "c"), (0, "other")])
def test_another_brokers_or_clusters_directory_is_refused(broker: int, cluster: str) -> None:
    world = World()
    world.close()
    with pytest.raises(ConfigError):
        LogDirectory.open(
            world.disk, world.clock, SimRandom(), "/data", broker_id=broker, cluster_id=cluster
        )
    World(world.disk).close()


def test_a_new_directory_gets_a_version_0_identity() -> None:
    world = World()
    found = read_identity(world.disk, "/data")
    assert found is not None
    assert (found.version, found.broker_id, found.cluster_id) == (0, 0, "c")
    assert read_identity(world.disk, "/elsewhere") is None
    world.close()


def test_identity_of_version_1_is_understood_and_kept() -> None:
    disk = SimDisk()
    text = (
        b"#\n#Fri Nov 20\nnode.id=0\ndirectory.id=XNOSFC_7KvKf4hZLfT2FNQ\nversion=1\ncluster.id=c\n"
    )
    overwrite(disk, "/data/meta.properties", text)
    World(disk).close()
    assert content(disk, "/data/meta.properties") == text
    overwrite(disk, "/data/meta.properties", b"version=7\nnode.id=0\ncluster.id=c\n")
    with pytest.raises(ConfigError, match="version 7"):
        read_identity(disk, "/data")


def test_checkpoints_say_what_is_flushed_and_no_more() -> None:
    world = World(periods=Periods(checkpoint_ms=1000))
    log = world.log()
    append(log, b"a")
    world.flush(log)
    append(log, b"b")
    log.high_watermark = Offset(2)
    world.directory.start()
    world.clock.advance(1)
    world.settle()
    place = {PLACE: 1}
    for name in (file_names.RECOVERY_POINTS, file_names.HIGH_WATERMARKS):
        assert text_files.read_offsets(content(world.disk, f"/data/{name}"), name) == place
    assert content(world.disk, f"/data/{file_names.LOG_STARTS}") == b"0\n0\n"
    world.close()


def test_checkpoints_that_have_not_changed_are_not_written() -> None:
    world = World()
    append(world.log(), b"a")
    world.flush(world.log())
    world.directory.checkpoint()
    world.settle()
    before = len(world.disk.ops)
    world.directory.checkpoint()
    world.settle()
    assert len(world.disk.ops) == before
    world.close()


def test_a_clean_stop_leaves_the_marker_and_the_next_start_takes_it() -> None:
    world = World()
    append(world.log(), b"a")
    world.directory.close()
    assert content(world.disk, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    after = World(world.disk)
    assert after.directory.loader.was_clean
    assert not world.disk.exists("/data/.kafka_cleanshutdown")
    after.close()
    third = World(world.disk)
    assert not third.directory.loader.was_clean
    third.close()


def test_a_deleted_partition_is_renamed_at_once_and_removed_after_its_delay() -> None:
    world = World()
    log = world.log()
    append(log, b"a")
    world.flush(log)
    world.directory.delete_log(PLACE)
    renamed = [name for name in world.disk.list("/data") if name.endswith("-delete")]
    assert len(renamed) == 1
    assert file_names.parse_directory(renamed[0]) is None
    assert renamed[0].startswith("t-0.")
    assert len(renamed[0]) == len("t-0.") + 32 + len("-delete")
    again = world.log()
    assert append(again, b"new life").base_offset == 0
    world.clock.advance(59)
    world.settle()
    assert world.disk.exists(f"/data/{renamed[0]}")
    world.clock.advance(2)
    world.settle()
    assert not world.disk.exists(f"/data/{renamed[0]}")
    assert values(again) == {0: b"new life"}
    world.close()


def test_what_was_being_deleted_is_removed_at_the_start() -> None:
    world = World()
    append(world.log(), b"a")
    world.directory.delete_log(PLACE)
    world.restart(clean=False)
    assert not [name for name in world.disk.list("/data") if name.endswith("-delete")]
    world.close()


def test_foreign_directories_and_files_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    foreign = [
        "/data/__cluster_metadata-0/00000000000000000000.log",
        "/data/t-1.0123456789abcdef0123456789abcdef-stray/00000000000000000000.log",
        "/data/t-2.0123456789abcdef0123456789abcdef-future/00000000000000000000.log",
        "/data/lost+found/x",
        "/data/bootstrap.checkpoint",
        "/data/notes.txt",
    ]
    for path in foreign:
        overwrite(disk, path, b"not ours")
    world = World(disk)
    assert not world.directory.logs
    world.directory.close()
    assert all(content(disk, path) == b"not ours" for path in foreign)
    assert (
        sum("left alone" in line or "an incomplete copy" in line for line in caplog.messages) == 2
    )
    assert sum("a former log of t-1 (8 bytes" in line for line in caplog.messages) == 1
    (stray,) = world.directory.strays
    assert (stray.partition, stray.size) == (TopicPartition("t", 1), 8)


def test_loading_off_the_thread_finds_every_partition() -> None:
    world = World()
    for at in range(150):
        append(world.log(TopicPartition("many", at)), b"%d" % at)
    world.directory.close(clean=False)
    directory = LogDirectory.open(
        world.disk, world.clock, SimRandom(), "/data", broker_id=0, cluster_id="c"
    )
    results: list[BaseException | None] = []
    directory.load(lambda _: CONFIG, results.append, parallel=3)
    assert results == []
    world.disk.settle()
    assert results == [None]
    assert len(directory.logs) == 150
    assert values(directory.logs[TopicPartition("many", 77)]) == {0: b"77"}
    directory.close()


def test_no_file_is_open_for_a_partition_at_rest() -> None:
    world = World()
    for at in range(20):
        append(world.log(TopicPartition("many", at)), b"%d" % at)
    world.restart(clean=True)
    assert len(world.directory.logs) == 20
    open_logs = [log for log in world.directory.logs.values() if log.segments[-1].is_open]
    assert open_logs == []
    world.close()


# --- Kafka's four passes ------------------------------------------------------------------------


def compacting() -> tuple[World, bytes]:
    """A partition with segments 0, 2, 4 and the bytes of one that would replace 0 and 2."""
    size = 2 * 70 + 40
    world = World(config=LogConfig(segment_bytes=size))
    for at in range(6):
        append(world.log(), b"%d" % at)
    assert [one.base_offset for one in world.log().segments] == [0, 2, 4]
    world.flush(world.log())
    world.directory.close()
    merged = b"".join(content(world.disk, f"/data/t-0/{at:020d}.log") for at in (0, 2))
    return world, merged


def test_a_complete_swap_takes_the_place_of_what_it_replaces() -> None:
    world, merged = compacting()
    overwrite(world.disk, "/data/t-0/00000000000000000000.log.swap", merged)
    overwrite(world.disk, "/data/t-0/00000000000000000000.index.swap", b"")
    after = World(world.disk)
    assert [one.base_offset for one in after.log().segments] == [0, 4]
    assert values(after.log()) == {at: b"%d" % at for at in range(6)}
    after.close()


def test_a_swap_behind_a_cleaned_file_was_not_complete_and_goes() -> None:
    world, merged = compacting()
    overwrite(world.disk, "/data/t-0/00000000000000000000.log.cleaned", merged[:50])
    overwrite(world.disk, "/data/t-0/00000000000000000002.log.swap", merged[:70])
    overwrite(world.disk, "/data/t-0/00000000000000000004.log.deleted", merged[:70])
    after = World(world.disk)
    assert [one.base_offset for one in after.log().segments] == [0, 2, 4]
    assert values(after.log()) == {at: b"%d" % at for at in range(6)}
    left = [name for name in world.disk.list("/data/t-0") if name.count(".") > 1]
    assert left == []
    after.close()


def test_index_files_without_their_segment_are_removed() -> None:
    world = World()
    append(world.log(), b"a")
    world.directory.close()
    overwrite(world.disk, "/data/t-0/00000000000000000009.index", bytes(8))
    after = World(world.disk)
    assert not world.disk.exists("/data/t-0/00000000000000000009.index")
    after.close()


def test_a_torn_snapshot_is_thrown_away_and_built_again() -> None:
    world = World()
    append(world.log(), b"a", producer=(3, 0, 0))
    world.directory.close()
    overwrite(world.disk, "/data/t-0/00000000000000000001.snapshot", b"\0\1torn")
    after = World(world.disk)
    assert 3 in after.log().producers
    after.close()


def test_producers_silent_for_long_are_forgotten() -> None:
    world = World(periods=Periods(producer_id_expiration_ms=1000, producer_expiry_check_ms=500))
    append(world.log(), b"a", producer=(3, 0, 0), timestamp=NOW_MS)
    world.directory.start()
    world.clock.advance(0.6)
    assert 3 in world.log().producers
    world.clock.advance(1)
    assert 3 not in world.log().producers
    world.close()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("t-01", None),
        ("t", None),
        ("-1", None),
        ("t-2147483648", None),
        ("..-1", None),
        ("t-0.0123-delete", None),
    ],
)
def test_directory_names_are_read_as_kafka_writes_them(
    name: str, place: TopicPartition | None
) -> None:
    assert file_names.parse_directory(name) == place


def test_a_delete_directory_has_a_name_a_file_system_takes() -> None:
    name = file_names.delete_directory(TopicPartition("x" * 249, 123), bytes(16))
    assert len(name) == 255
    assert name.endswith(f"-123.{'0' * 32}-delete")


def test_a_topic_id_that_was_missing_can_be_given() -> None:
    world = World()
    append(world.log(), b"a")
    world.directory.close()
    world.disk.remove("/data/t-0/partition.metadata")
    after = World(world.disk)
    assert after.log().topic_id == text_files.NO_TOPIC_ID
    after.log().adopt_topic_id(TOPIC_ID)
    after.flush(after.log())
    after.restart(clean=False)
    assert after.log().topic_id == TOPIC_ID
    assert content(world.disk, "/data/t-0/partition.metadata") == (
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    after.close()


def test_logs_prepared_off_the_thread_are_taken_up_without_touching_the_disk() -> None:
    world = World()
    wanted = [TopicPartition("many", number) for number in range(3)]
    results: list[BaseException | None] = []
    news = [NewLog(place, TOPIC_ID, world.config) for place in wanted]
    world.directory.prepare_logs(news, results.append)
    assert not world.disk.is_directory("/data/many-0")
    world.settle()
    assert results == [None]
    operations = len(world.disk.ops)
    logs = [world.directory.create_log(place, TOPIC_ID, world.config) for place in wanted]
    assert len(world.disk.ops) == operations
    world.settle()
    append(logs[2], b"one")
    world.flush(logs[2])
    world.restart(clean=False)
    assert values(world.log(wanted[2])) == {0: b"one"}
    world.close()


def test_a_log_that_could_not_be_prepared_is_made_or_refused_as_ever() -> None:
    world = World()
    place = TopicPartition("many", 0)
    world.disk.fail_writes(at=1)  # the durable read bounds come first
    results: list[BaseException | None] = []
    world.directory.prepare_logs([NewLog(place, TOPIC_ID, world.config)], results.append)
    world.settle()
    assert results == [None]
    assert not world.directory.fenced
    with pytest.raises(StorageError):
        world.directory.create_log(place, TOPIC_ID, world.config)
    assert world.directory.failure is not None
    world.close()
