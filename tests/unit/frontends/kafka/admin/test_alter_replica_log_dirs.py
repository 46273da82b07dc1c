"""AlterReplicaLogDirs: replicas move between the directories of their broker, and lose nothing."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import alter_replica_log_dirs, describe_log_dirs
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.admin import ask, nested, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, created, play, room, until

ALTER = served(alter_replica_log_dirs)
PLACE = TopicPartition("t", 0)
TWO = ("/a", "/b")


def tell(
    place: Path,
    story: Callable[[Room], Awaitable[None]],
    disk: SimDisk | None = None,
    *,
    kill: bool = False,
) -> None:
    async def whole() -> None:
        on = disk or SimDisk()
        async with room(place, on, kill=kill, directories=TWO) as here:
            await story(here)

    play(whole())


async def move(here: Room, path: str, key: TopicPartition = PLACE, version: int = 2) -> str:
    """Ask for one replica to be moved; the name of the error it is answered with."""
    topic = nested(
        ALTER, version, "AlterReplicaLogDirTopic", name=key.topic, partitions=(key.partition,)
    )
    wanted = nested(ALTER, version, "AlterReplicaLogDir", path=path, topics=(topic,))
    answer = await ask(here, ALTER, version, dirs=(wanted,))
    (result,) = answer.results
    (partition,) = result.partitions
    assert (result.topic_name, partition.partition_index) == (*key,)
    return ErrorCode(partition.error_code).name


def directory_of(here: Room, key: TopicPartition = PLACE) -> LogDirectory:
    (found,) = (found for found in here.broker.directories if key in found.logs)
    return found


def other(here: Room, key: TopicPartition = PLACE) -> LogDirectory:
    (found,) = (found for found in here.broker.directories if key not in found.logs)
    return found


async def moved(here: Room, target: LogDirectory) -> None:
    await until(lambda: PLACE in target.logs and not target.futures.logs)


def values(here: Room) -> list[bytes]:
    """Return all that a reader gets of the partition, batch by batch."""
    partition = here.broker.partition(*PLACE)
    found, at = [], partition.log.start_offset
    while at < partition.high_watermark:
        read = partition.log.read_from_disk(at, 1, below=partition.high_watermark)
        found.append(bytes(read.data))
        at = read.next_offset
    return found


async def shown(here: Room) -> dict[str, list[tuple[int, int, bool]]]:
    """Return size, lag and whether it is a copy, of what lies in which directory."""
    answer = await ask(here, served(describe_log_dirs), 4, topics=None)
    return {
        result.log_dir: [
            (partition.partition_size, partition.offset_lag, partition.is_future_key)
            for topic in result.topics
            for partition in topic.partitions
        ]
        for result in answer.results
    }


@pytest.mark.parametrize("version", versions(ALTER))
def test_a_replica_moves_to_another_directory_with_all_its_records(
    tmp_path: Path, version: int
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        for number in range(50):
            here.write("t", 0, b"%d" % number)
        await until(lambda: here.broker.partition("t", 0).high_watermark == 50)
        before, source, target = values(here), directory_of(here), other(here)
        assert await move(here, target.path, version=version) == "NONE"
        await moved(here, target)
        assert PLACE not in source.logs
        assert values(here) == before
        assert here.write("t", 0, b"more") == 50
        await until(lambda: here.broker.partition("t", 0).high_watermark == 51)
        names = here.disk.list(target.path)
        assert "t-0" in names
        assert not [name for name in names if name.endswith("-future")]

    tell(tmp_path, story)


def test_what_is_written_meanwhile_moves_too_and_is_acknowledged(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        target = other(here)
        for _ in range(200):
            here.write("t", 0, bytes(20_000))
        assert await move(here, target.path) == "NONE"
        acknowledged: list[ApiError | None] = []
        written = 200
        while PLACE not in target.logs:
            with suppress(ApiError):  # for the moment in which it moves
                offset = here.write("t", 0, b"meanwhile")
                partition = here.broker.partition(*PLACE)
                partition.when_committed(Offset(offset + 1), acknowledged.append)
                assert offset == written
                written += 1
            await asyncio.sleep(0)
        await until(lambda: len(acknowledged) == written - 200)
        assert acknowledged == [None] * (written - 200)
        assert written > 200
        assert here.broker.partition(*PLACE).log.end_offset == written
        assert len(values(here)) == written

    tell(tmp_path, story)


def test_a_move_under_way_is_shown_as_a_future_replica_and_can_be_called_off(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        here.broker.throttles.directories.set_bound(0)
        for _ in range(5):
            here.write("t", 0, b"x")
        source, target = directory_of(here), other(here)
        assert await move(here, target.path) == "NONE"
        assert await move(here, target.path) == "NONE"  # once more changes nothing
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset)
        found = await shown(here)
        ((size, lag, is_future),) = found[target.path]
        assert (lag, is_future) == (4, True)
        assert found[source.path] == [(5 * size, 0, False)]
        assert await move(here, source.path) == "NONE"
        await until(lambda: not [n for n in here.disk.list(target.path) if n.startswith("t-0")])
        assert await shown(here) == {source.path: [(5 * size, 0, False)], target.path: []}
        assert here.write("t", 0, b"x") == 5

    tell(tmp_path, story)


def test_a_move_takes_no_more_than_its_throttle_and_goes_on_when_that_is_raised(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        throttle, clock = here.broker.throttles.directories, here.broker.clock
        throttle.set_bound(10_000)
        for _ in range(40):
            here.write("t", 0, bytes(10_000))
        target = other(here)
        began = clock.monotonic()
        assert await move(here, target.path) == "NONE"
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset >= 10)
        for _ in range(20):
            await asyncio.sleep(0)
        assert clock.monotonic() - began < 1
        assert target.futures.logs[PLACE].end_offset < 40
        here.server.world.sim_clock.advance(60)  # type: ignore[attr-defined]
        await until(lambda: target.futures.logs[PLACE].end_offset > 11)
        throttle.set_bound(1 << 62)
        here.server.world.sim_clock.advance(2)  # type: ignore[attr-defined]
        await moved(here, target)

    tell(tmp_path, story)


def test_a_move_that_a_kill_interrupts_begins_anew_and_ends(tmp_path: Path) -> None:
    disk, began = SimDisk(), dict[str, Any]()

    async def first(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        here.broker.throttles.directories.set_bound(0)
        for number in range(20):
            here.write("t", 0, b"%d" % number)
        await until(lambda: here.broker.partition("t", 0).high_watermark == 20)
        target = other(here)
        assert await move(here, target.path) == "NONE"
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset)
        began.update(target=target.path, values=values(here))
        assert [name for name in disk.list(target.path) if name.endswith("-future")]

    async def second(here: Room) -> None:
        (target,) = (each for each in here.broker.directories if each.path == began["target"])
        await moved(here, target)
        await until(lambda: here.broker.partition("t", 0).high_watermark == 20)
        assert values(here) == began["values"]
        assert not [name for name in disk.list(target.path) if name.endswith("-future")]

    tell(tmp_path, first, disk, kill=True)
    tell(tmp_path, second, disk)


def test_a_future_directory_of_no_topic_here_is_left_alone(tmp_path: Path) -> None:
    disk = SimDisk()
    name = f"/b/gone-0.{'ab' * 16}-future"

    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        assert disk.exists(name)

    disk.make_directory(name)
    tell(tmp_path, story, disk)
    assert disk.exists(name)


def test_refusals_name_what_is_wrong(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        long = "l" * 240
        await created(here, NewTopic("t", 1), NewTopic(long, 1))
        assert await move(here, "/c") == "LOG_DIR_NOT_FOUND"
        assert await move(here, "/a", TopicPartition("u", 0)) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await move(here, "/a", TopicPartition("t", 1)) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await move(here, "/a", TopicPartition(long, 0)) == "INVALID_TOPIC_EXCEPTION"
        assert await move(here, directory_of(here).path) == "NONE"
        here.broker.partitions.pop(("t", 0))
        assert await move(here, "/a") == "REPLICA_NOT_AVAILABLE"
        fail(other(here))
        assert await move(here, "/a") == "KAFKA_STORAGE_ERROR"

    tell(tmp_path, story)


def fail(directory: LogDirectory) -> None:
    directory.context.fail(OSError(errno.EIO, "gone"), directory.path)


@pytest.mark.parametrize("failing", ["source", "target"])
def test_a_directory_that_fails_ends_the_move(tmp_path: Path, failing: str) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        here.broker.throttles.directories.set_bound(0)
        for _ in range(5):
            here.write("t", 0, b"x")
        source, target = directory_of(here), other(here)
        assert await move(here, target.path) == "NONE"
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset)
        fail(source if failing == "source" else target)
        await until(lambda: not target.futures.logs)
        if failing == "source":
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0, b"x")
        else:
            assert here.write("t", 0, b"x") == 5

    tell(tmp_path, story, kill=True)


def test_a_topic_that_is_deleted_takes_its_copy_along(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        here.broker.throttles.directories.set_bound(0)
        for _ in range(5):
            here.write("t", 0, b"x")
        target = other(here)
        assert await move(here, target.path) == "NONE"
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset)
        await here.controller.delete_topics(["t"])
        await until(lambda: not target.futures.logs)
        await until(lambda: not [n for n in here.disk.list(target.path) if n.startswith("t-0")])
        await created(here, NewTopic("t", 1))
        assert here.write("t", 0, b"x") == 0

    tell(tmp_path, story)


def test_a_log_whose_start_has_moved_begins_where_it_did(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        for number in range(20):
            here.write("t", 0, b"%d" % number)
        partition = here.broker.partition("t", 0)
        await until(lambda: partition.high_watermark == 20)
        partition.delete_records(7)
        before, target = values(here), other(here)
        assert await move(here, target.path) == "NONE"
        await moved(here, target)
        log = partition.log
        assert (log.start_offset, log.end_offset) == (7, 20)
        assert values(here) == before

    tell(tmp_path, story)


def test_of_two_logs_that_a_kill_left_the_one_that_goes_on_further_stays(tmp_path: Path) -> None:
    disk = SimDisk()

    async def first(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        here.write("t", 0, b"kept")
        await until(lambda: here.broker.partition("t", 0).high_watermark == 1)

    async def second(here: Room) -> None:
        source = directory_of(here)
        here.write("t", 0, b"later")
        await until(lambda: here.broker.partition("t", 0).high_watermark == 2)
        assert source.path == "/a"

    async def third(here: Room) -> None:
        assert directory_of(here).path == "/a"
        assert here.broker.partition("t", 0).log.end_offset == 2
        assert [name for name in disk.list("/b") if name.endswith("-stray")]

    tell(tmp_path, first, disk)
    disk.make_directory("/b/t-0")
    for name in disk.list("/a/t-0"):
        source, copy = disk.open(f"/a/t-0/{name}"), disk.open(f"/b/t-0/{name}", create=True)
        copy.write_at(0, (source.read(0, source.size()),))
        copy.sync()
    disk.rename("/b/t-0", "/b/hidden")
    tell(tmp_path, second, disk)
    disk.rename("/b/hidden", "/b/t-0")
    tell(tmp_path, third, disk)


def test_what_is_cut_off_the_log_meanwhile_is_cut_off_the_copy(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        throttle = here.broker.throttles.directories
        throttle.set_bound(10_000)
        for _ in range(40):
            here.write("t", 0, bytes(10_000))
        source, target = directory_of(here), other(here)
        partition = here.broker.partition(*PLACE)
        assert await move(here, target.path) == "NONE"
        await until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset >= 10)
        done: list[BaseException | None] = []
        source.truncate_logs([(partition.log, Offset(5))], done.append, unclean=True)
        await until(lambda: done)
        assert done == [None]
        new = NewLog(PLACE, partition.topic_id, partition.log.config)
        here.broker.lead_partition(new, LeaderEpoch(partition.leader_epoch + 1))
        for _ in range(20):
            here.write("t", 0, b"another")
        await until(lambda: partition.high_watermark == 25)
        before, epochs = values(here), partition.log.epochs.entries
        throttle.set_bound(1 << 62)
        here.server.world.sim_clock.advance(60)  # type: ignore[attr-defined]
        await moved(here, target)
        assert values(here) == before
        assert partition.log.epochs.entries == epochs

    tell(tmp_path, story)


def test_of_many_moves_two_are_copied_at_once_and_all_arrive(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 6))
        for index in range(6):
            here.write("t", index, b"%d" % index)
        (first, second) = here.broker.directories
        keys = [*first.logs]
        assert len(keys) == 3
        for key in keys:
            assert await move(here, second.path, key) == "NONE"
        await until(lambda: not first.logs)
        assert {key.partition for key in second.logs} == set(range(6))
        for index in range(6):
            assert here.write("t", index, b"more") == 1

    tell(tmp_path, story)
