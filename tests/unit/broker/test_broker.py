"""A broker's partitions and log directories: what it leads and answers, what a failure hits."""

import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.partition import Partition
from headrace.broker.quotas import Entity
from headrace.cluster.topics.creation import NewTopic
from headrace.config.broker import load
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import Room, created, play, room, until

TWO = ("/a", "/b")


def tell(
    place: Path,
    story: Callable[[Room], Awaitable[None]],
    directories: tuple[str, ...] = ("/data",),
    *,
    kill: bool = False,
    **settings: str,
) -> None:
    async def whole() -> None:
        begun = room(
            place, SimDisk(), kill=kill, directories=directories, authorizer=None, **settings
        )
        async with begun as here:
            await story(here)

    play(whole())


def answer(here: Room, topic: str, index: int) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        here.broker.partition(topic, index)
    return refused.value.code


def fail(directory: LogDirectory) -> None:
    directory.context.fail(OSError(errno.EIO, "gone"), directory.path)


def directory_of(here: Room, topic: str) -> LogDirectory:
    key = TopicPartition(topic, 0)
    return next(found for found in here.broker.directories if key in found.logs)


def test_quotas_are_measured_over_the_windows_that_are_configured(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        quotas = here.broker.quotas
        limits = {"consumer_byte_rate": 10.0, "request_percentage": 1.0}
        quotas.put(Entity("u"), {**limits, "controller_mutation_rate": 1.0})
        quota = quotas.of("u", "c")
        assert quota.fetch_bytes_max(1000) == 10 * 3 * (5 - 1)
        assert quota.handled(1000.0) == 3.0
        assert here.broker.quotas.connections_rate_max == 9
        mutations = quotas.mutations("u", "c", strict=True)
        mutations.spend(4 * 7)  # all that was saved: the next one is free, too
        mutations.spend(1)
        with pytest.raises(ApiError, match="THROTTLING_QUOTA_EXCEEDED"):
            mutations.spend(1)

    tell(
        tmp_path,
        story,
        quota_window_num="5",
        quota_window_size_seconds="3",
        controller_quota_window_num="4",
        controller_quota_window_size_seconds="7",
        max_connection_creation_rate="9",
    )


def test_client_metrics_are_bounded_as_configured(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        assert here.broker.telemetry.bytes_max == 1234
        assert here.broker.telemetry is here.broker.telemetry

    tell(tmp_path, story, telemetry_max_bytes="1234")


def test_a_partition_that_is_not_led_here_is_answered_by_why(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        (topic,) = await created(here, NewTopic("t", 2))
        broker = here.broker
        assert broker.partition("t", 1).topic_partition == TopicPartition("t", 1)
        for index in (-1, 2):
            assert answer(here, "t", index) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer(here, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.stop_partition("t", 0, delete=False)
        assert answer(here, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.refuse_partition("t", 0)
        assert answer(here, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        broker.stop_partition("t", 0, delete=False)
        assert answer(here, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.partition_by_id(topic.topic_id, 1) is broker.partition("t", 1)
        with pytest.raises(ApiError, match="UNKNOWN_TOPIC_ID"):
            broker.partition_by_id(bytes(16), 1)

    tell(tmp_path, story)


def test_who_is_to_lead_again_goes_on_with_the_same_partition(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        (topic,) = await created(here, NewTopic("t", 1))
        broker, opened = here.broker, list[Partition]()
        partition = broker.partition("t", 0)
        broker.opened.append(opened.append)
        new = NewLog(TopicPartition("t", 0), topic.topic_id, partition.log.config)
        assert broker.lead_partition(new, LeaderEpoch(7)) is partition
        assert partition.leader_epoch == 7
        assert opened == [partition]
        assert broker.lead_partition(new, LeaderEpoch(7)) is partition
        assert opened == [partition]
        opened.clear()
        broker.stop_partition("t", 0, delete=False)
        broker.refuse_partition("t", 0)
        again = broker.lead_partition(new, LeaderEpoch(8))
        assert opened == [again]
        assert again is not partition
        assert again.leader_epoch == 8
        assert broker.partition("t", 0) is again
        broker.stop_partition("t", 0, delete=False)
        assert answer(here, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)


def test_a_log_of_another_topic_of_that_name_is_not_led(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        config = here.broker.partition("t", 0).log.config
        here.broker.stop_partition("t", 0, delete=False)
        with pytest.raises(ApiError, match="belongs to another topic") as refused:
            here.broker.lead_partition(
                NewLog(TopicPartition("t", 0), bytes(range(16)), config), LeaderEpoch(7)
            )
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert answer(here, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR

    tell(tmp_path, story)


def test_a_failed_directory_takes_its_own_partitions_out_of_service_and_no_others(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        topics = await created(here, *(NewTopic(name, 1) for name in "stuv"))
        broker, closed = here.broker, list[str]()
        broker.closed.append(lambda partition: closed.append(partition.topic_partition.topic))
        failing = directory_of(here, "s")
        hit = sorted(key.topic for key in failing.logs)
        spared = sorted(set("stuv") - set(hit))
        assert len(hit) == len(spared) == 2  # logs are made where there are fewest
        followed, failed = hit
        broker.stop_partition(followed, 0, delete=False)
        closed.clear()
        fail(failing)
        assert closed == [failed]
        assert broker.partition(failed, 0).refusal is ErrorCode.KAFKA_STORAGE_ERROR
        assert answer(here, followed, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        shown = {name: broker.image.topics[name].partitions[0] for name in "stuv"}
        assert [shown[name].leader for name in (failed, followed)] == [-1, broker.broker_id]
        assert shown[failed].offline == (broker.broker_id,)
        for name in spared:
            here.write(name)
            assert shown[name].leader == broker.broker_id
        by_name = {topic.name: topic.topic_id for topic in topics}
        config = broker.partition(spared[0], 0).log.config
        new = NewLog(TopicPartition(failed, 0), by_name[failed], config)
        with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
            broker.lead_partition(new, LeaderEpoch(9))
        assert {log.topic_partition.topic for log in broker.logs()} >= set(spared)

    tell(tmp_path, story, TWO, kill=True)


def test_new_logs_are_made_in_working_directories_only(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        broken, working = here.broker.directories
        here.broker.check_writable()
        fail(broken)
        await created(here, NewTopic("t", 3))
        assert [len(found.logs) for found in (broken, working)] == [0, 3]
        fail(working)
        with pytest.raises(ApiError, match="no log directory is writable") as refused:
            here.broker.check_writable()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    tell(tmp_path, story, TWO, kill=True)


def test_a_deleted_log_is_gone_unless_it_lies_in_a_failed_directory(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("s", 1), NewTopic("t", 1))
        broker = here.broker
        fail(directory_of(here, "s"))
        key = TopicPartition("s", 0)
        led = broker.partition("t", 0)
        assert not broker.stop_partition("s", 0, delete=True)
        assert broker.stop_partition("t", 0, delete=True)
        assert led.refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ("t", 0) not in broker.partitions
        assert broker.has_replica(key)
        assert broker.found() == [key]

    tell(tmp_path, story, TWO, kill=True)


def test_a_partition_that_is_no_longer_led_keeps_its_log(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        led = here.broker.partition("t", 0)
        assert here.broker.stop_partition("t", 0, delete=False)
        assert led.refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [log.topic_partition.topic for log in here.broker.logs()] == ["t"]
        assert here.broker.has_replica(TopicPartition("t", 0))
        assert not here.broker.has_replica(TopicPartition("t", 1))

    tell(tmp_path, story)


def test_checkpoints_are_done_when_every_working_directory_has_its_own(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        done: list[None] = []
        here.broker.checkpoint(done.append)
        assert done == []
        await until(lambda: done)
        assert done == [None]
        fail(here.broker.directories[0])
        here.broker.checkpoint(done.append)
        await until(lambda: len(done) == 2)
        fail(here.broker.directories[1])
        here.broker.checkpoint(done.append)
        for _ in range(50):
            await until(lambda: True)
        assert len(done) == 2

    tell(tmp_path, story, TWO, kill=True)


def test_names_are_made_durable_in_working_directories_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Room) -> None:
        fail(here.broker.directories[0])
        synced: list[str] = []
        monkeypatch.setattr(here.disk, "sync_directory", synced.append)
        done: list[BaseException | None] = []
        here.broker.sync_directories(done.append)
        await until(lambda: done)
        assert done == [None]
        assert synced == ["/b"]

    tell(tmp_path, story, TWO, kill=True)


@pytest.mark.parametrize("place", TWO)
def test_a_stop_closes_every_directory_and_says_that_one_could_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("s", 1), NewTopic("t", 1))
        broker, closed = here.broker, list[str]()
        led = [broker.partition(name, 0) for name in "st"]

        def close(directory: LogDirectory) -> None:
            closed.append(directory.path)
            if directory.path == place:
                raise StorageError("not closed")

        with monkeypatch.context() as patched:
            patched.setattr(LogDirectory, "close", close)
            with pytest.raises(StorageError, match="not closed"):
                broker.stop()
        assert closed == ["/a", "/b"]
        assert broker.partitions == {}
        assert {partition.refusal for partition in led} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    tell(tmp_path, story, TWO, kill=True)


@pytest.mark.parametrize("change", [True, False])
def test_new_settings_reach_partitions_quotas_and_who_asked_to_be_told(
    tmp_path: Path, change: bool
) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("t", 1))
        broker, told = here.broker, list[object]()
        broker.reconfigured.append(told.append)
        role = broker.partition("t", 0).role
        flags = {"log.dirs": "/data", "log.flush.on.ack": str(not change).lower()}
        config, _ = load(flags={**flags, "max.connection.creation.rate": "5"})
        broker.reconfigure(config)
        assert broker.config is config
        assert told == [config]
        assert broker.quotas.connections_rate_max == 5
        assert role.flushes_on_ack is (not change)

    tell(tmp_path, story)


def test_a_topics_new_settings_reach_its_partitions_and_no_others(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await created(here, NewTopic("s", 1), NewTopic("t", 2))
        broker = here.broker
        config = replace(broker.partition("t", 0).log.config, retention_ms=77)
        broker.reconfigure_topic("t", config)
        broker.reconfigure_topic("unknown", config)
        found = {key: led.log.config.retention_ms for key, led in broker.partitions.items()}
        assert [found["t", 0], found["t", 1]] == [77, 77]
        assert found["s", 0] != 77

    tell(tmp_path, story)
