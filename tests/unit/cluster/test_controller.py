"""The controller: topics come, grow, go, are configured, and are found again after any stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster import znodes
from headrace.cluster.settings.config_descriptions import Alteration, AlterOperation
from headrace.cluster.topic_creation import NewTopic
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, Offset, TopicPartition
from headrace.ports.store import Create, NoNode
from headrace.posix.store.embedded_store import FILE_NAME
from headrace.testing.disk import SimDisk
from tests.support.broker import Room, append, play, room

SET, DELETE = AlterOperation.SET, AlterOperation.DELETE


async def created(here: Room, *wanted: NewTopic) -> list[TopicInfo]:
    outcome = await here.controller.create_topics(wanted)
    topics = [one for one in outcome if isinstance(one, TopicInfo)]
    assert len(topics) == len(wanted), outcome
    return topics


def test_a_topic_can_be_written_to_as_soon_as_its_creation_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            (topic,) = await created(here, NewTopic("t", 3))
            assert [here.write("t", index) for index in range(3)] == [0, 0, 0]
            assert here.broker.image.topics["t"] == topic
            assert here.broker.image.topics_by_id[topic.topic_id] == topic
            assert here.broker.partition_by_id(topic.topic_id, 2).topic_id == topic.topic_id

    play(story())


def test_topics_settings_and_records_are_there_after_a_clean_stop_and_after_a_kill(
    tmp_path: Path,
) -> None:
    disk = SimDisk()

    async def begin() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2, config={"retention.ms": "1234"}))
            here.write("t", 1)
            await asyncio.sleep(0.01)

    async def go_on(kill: bool, epoch: int) -> None:
        async with room(tmp_path, disk, kill=kill) as here:
            topic = here.broker.image.topics["t"]
            assert [one.leader_epoch for one in topic.partitions] == [epoch, epoch]
            assert topic.config == {"retention.ms": "1234"}
            partition = here.broker.partition("t", 1)
            assert partition.high_watermark == 1
            assert partition.log.config.retention_ms == 1234
            assert partition.leader_epoch == epoch

    play(begin())
    play(go_on(kill=True, epoch=1))
    play(go_on(kill=False, epoch=2))


def test_a_log_is_taken_up_with_its_topic_s_settings(tmp_path: Path) -> None:
    """Its indexes are built again as dense as they were; gaps in it are judged by its policy."""
    disk = SimDisk()

    async def story() -> None:
        dense = {"index.interval.bytes": "10", "cleanup.policy": "compact"}
        async with room(tmp_path, disk, kill=True) as here:
            await created(here, NewTopic("dense", 1, config=dense), NewTopic("plain", 1))
            for _ in range(20):
                here.write("dense")
                here.write("plain")
        async with room(tmp_path, disk) as here:
            entries = {
                name: len(here.broker.partition(name, 0).log.segments[0].index.entries())
                for name in ("dense", "plain")
            }
            assert entries == {"dense": 19, "plain": 0}
            config_of = await here.controller.log_configs()
            assert config_of(TopicPartition("dense", 7)).compacted
            assert not config_of(TopicPartition("plain", 0)).compacted
            assert not config_of(TopicPartition("unknown", 0)).compacted
            assert config_of(TopicPartition(OFFSETS_TOPIC, 0)).compacted

    play(story())


def test_a_partition_whose_directory_is_gone_is_offline_and_not_empty(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2))
            assert [here.write("t", index) for index in range(2)] == [0, 0]
        disk.remove_tree("/data/t-1")
        for _ in range(2):
            async with room(tmp_path, disk) as here:
                assert here.broker.partition("t", 0).log.end_offset == 1
                with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                    here.broker.partition("t", 1)
        async with room(tmp_path, disk) as here:
            assert await here.controller.delete_topics(["t"]) == {"t": None}
            await created(here, NewTopic("t", 2))
            assert here.write("t", 1) == 0

    play(story())


def test_a_deleted_topic_is_gone_and_its_name_is_free_at_once(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            (first,) = await created(here, NewTopic("t", 2))
            waiting = append(here.broker.partition("t", 0))
            told: list[ApiError | None] = []
            here.broker.partition("t", 0).when_committed(
                Offset(waiting.commit_offset + 1), told.append
            )
            outcome = await here.controller.delete_topics(["t", "other"])
            assert outcome["t"] is None
            assert outcome["other"] is not None
            assert outcome["other"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [one.code for one in told if one] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                here.broker.partition("t", 0)
            with pytest.raises(NoNode):
                await here.store.get(znodes.topic_path("t"))
            assert await here.store.children(znodes.DELETE_TOPICS) == []
            (second,) = await created(here, NewTopic("t", 1))
            assert second.topic_id != first.topic_id
            assert here.write("t") == 0
        async with room(tmp_path, disk) as here:
            assert len(here.broker.image.topics["t"].partitions) == 1

    play(story())


def test_a_deletion_cut_by_a_kill_is_finished_by_the_next_start(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await created(here, NewTopic("t", 3), NewTopic("stays", 1))
            await here.store.multi([Create(f"{znodes.DELETE_TOPICS}/t", b"")])
            here.broker.stop_partition("t", 1, delete=True)
        async with room(tmp_path, disk) as here:
            assert set(here.broker.image.topics) == {"stays"}
            assert set(here.broker.partitions) == {("stays", 0)}
            assert await here.store.children(znodes.TOPICS) == ["stays"]

    play(story())


def test_directories_that_the_store_knows_nothing_of_become_topics_with_their_ids(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            topics = await created(here, NewTopic("t", 3))
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            producer = append(here.broker.partition("t", 2), producer_id=4711, producer_epoch=0,
                              base_sequence=0)  # fmt: skip
            assert producer.base_offset == 0
            await asyncio.sleep(0.01)
        (tmp_path / FILE_NAME).unlink()
        async with room(tmp_path, disk, offsets_topic_num_partitions="7") as here:
            image = here.broker.image
            assert image.topics["t"].topic_id == topics[0].topic_id
            assert [one.leader_epoch for one in image.topics["t"].partitions] == [1, 1, 1]
            assert here.broker.partition("t", 2).high_watermark == 1
            # Found on disk: it keeps its 50 partitions, and is never cleaned by age.
            assert len(image.topics[OFFSETS_TOPIC].partitions) == 50
            assert here.broker.partition(OFFSETS_TOPIC, 0).log.config.compacted
            # Ids that adopted logs know are not given out again.
            assert await here.controller.next_producer_id() > 4711
        assert any("their settings are lost" in line for line in caplog.messages)

    play(story())


def test_an_empty_partition_lost_from_the_disk_is_made_anew_and_others_stay(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2))
        disk.remove_tree("/data/t-1")
        async with room(tmp_path, disk) as here:
            assert here.write("t", 1) == 0

    play(story())


def test_new_partitions_go_to_the_directory_with_fewest(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), directories=("/one", "/two", "/three")) as here:
            await created(here, NewTopic("t", 8))
            assert sorted(len(one.logs) for one in here.broker.directories) == [2, 3, 3]

    play(story())


def test_a_topic_grows_and_its_old_partitions_go_on(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 1))
            here.write("t")
            await here.controller.create_partitions("t", 3)
            assert [here.write("t", index) for index in range(3)] == [1, 0, 0]
            assert here.broker.image.topics["t"].partitions[0].leader_epoch == 0
            for count in (3, 2, 0, -1):
                with pytest.raises(ApiError, match="INVALID_PARTITIONS"):
                    await here.controller.create_partitions("t", count)
        async with room(tmp_path, disk) as here:
            assert len(here.broker.image.topics["t"].partitions) == 3

    play(story())


def test_topic_settings_are_taken_at_run_time_and_survive(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2))
            settings = here.controller.settings
            version = here.broker.image.version
            await settings.alter_topic("t", [Alteration("max.message.bytes", SET, "100")])
            assert here.broker.image.version > version
            with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE"):
                here.write("t", 1, b"x" * 200)
            with pytest.raises(ApiError, match="INVALID_CONFIG"):
                await settings.alter_topic("t", [Alteration("max.message.bytes", SET, "many")])
            with pytest.raises(ApiError, match="INVALID_CONFIG"):
                await settings.alter_topic("t", [Alteration("no.such.key", SET, "1")])
            assert here.broker.image.topics["t"].config == {"max.message.bytes": "100"}
        async with room(tmp_path, disk) as here:
            assert here.broker.partition("t", 0).log.config.max_message_bytes == 100
            await here.controller.settings.alter_topic(
                "t", [Alteration("max.message.bytes", DELETE, None)]
            )
            assert here.write("t", 0, b"x" * 200) == 0

    play(story())


def test_broker_settings_are_the_defaults_of_topics_at_run_time(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 1), NewTopic("u", 1, config={"retention.ms": "5"}))
            settings = here.controller.settings
            await settings.alter_broker("", [Alteration("log.retention.ms", SET, "7000")])
            await settings.alter_broker("0", [Alteration("log.retention.ms", SET, "9000")])
            assert here.broker.config.log_retention_ms == 9000
            assert here.broker.partition("t", 0).log.config.retention_ms == 9000
            assert here.broker.partition("u", 0).log.config.retention_ms == 5
            for name, key in (("0", "listeners"), ("", "log.dirs"), ("0", "no.such.key")):
                with pytest.raises(ApiError, match="INVALID_REQUEST"):
                    await settings.alter_broker(name, [Alteration(key, SET, "x")])
            with pytest.raises(ApiError, match="INVALID_REQUEST"):
                await settings.alter_broker("5", [Alteration("log.retention.ms", SET, "1")])
        async with room(tmp_path, disk) as here:
            settings = here.controller.settings
            assert here.broker.partition("t", 0).log.config.retention_ms == 9000
            await settings.alter_broker("0", [Alteration("log.retention.ms", DELETE, None)])
            assert here.broker.partition("t", 0).log.config.retention_ms == 7000

    play(story())


def test_nothing_is_changed_by_a_request_that_only_validates(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await created(here, NewTopic("t", 1))
            before = here.broker.image.version
            await here.controller.create_topics([NewTopic("u", 1)], validate_only=True)
            await here.controller.create_partitions("t", 5, validate_only=True)
            settings = here.controller.settings
            await settings.alter_topic("t", {"retention.ms": "1"}, validate_only=True)
            await settings.alter_broker("0", {"log.retention.ms": "1"}, validate_only=True)
            assert here.broker.image.version == before
            assert await here.store.children(znodes.TOPICS) == ["t"]
            assert here.broker.partition("t", 0).log.config.retention_ms == 604_800_000

    play(story())


def test_auto_creation_follows_the_configuration_and_internal_topics_are_always_made(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        settings: dict[str, Any] = {
            "auto_create_topics_enable": "false",
            "offsets_topic_num_partitions": "3",
        }
        async with room(tmp_path, SimDisk(), **settings) as here:
            outcome = await here.controller.auto_create(["t", OFFSETS_TOPIC])
            assert outcome["t"] is not None
            assert outcome["t"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert outcome[OFFSETS_TOPIC] is None
            topic = here.broker.image.topics[OFFSETS_TOPIC]
            assert (len(topic.partitions), topic.internal) == (3, True)
            assert topic.config["cleanup.policy"] == "compact"

    play(story())


def test_an_internal_topic_made_by_hand_is_compacted_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            own = {"segment.bytes": "1234567"}
            (topic,) = await created(here, NewTopic(OFFSETS_TOPIC, 1, config=own))
            assert topic.config["cleanup.policy"] == "compact"
            assert topic.config["segment.bytes"] == "1234567"

    play(story())


def test_many_that_need_a_topic_at_once_get_the_same_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            make = here.controller.ensure_internal_topic
            topics = await asyncio.gather(*(make(OFFSETS_TOPIC) for _ in range(5)))
            assert {topic.topic_id for topic in topics} == {topics[0].topic_id}

    play(story())


def test_producer_ids_are_never_given_twice_not_even_after_a_kill(tmp_path: Path) -> None:
    disk = SimDisk()
    given: list[int] = []

    async def story() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            given.extend(
                await asyncio.gather(*(here.controller.next_producer_id() for _ in range(2500)))
            )

    play(story())
    play(story())
    assert len(set(given)) == 5000


def test_a_failed_directory_takes_its_partitions_offline_and_creation_elsewhere(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            await created(here, NewTopic("t", 2))
            disk.fail_writes()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            disk.heal()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            assert here.write("t", 1) == 0
            await created(here, NewTopic("u", 2))
            offline, fine = here.broker.image.topics["t"].partitions
            assert (offline.leader, offline.offline) == (-1, (0,))
            assert (fine.leader, fine.offline) == (0, ())
            await here.controller.create_partitions("t", 3)
            assert here.broker.image.topics["t"].partitions[0].leader == -1
            failed = next(one for one in here.broker.directories if one.fenced)
            assert TopicPartition("u", 0) not in failed.logs

    play(story())


def test_a_topic_deleted_while_its_disk_had_failed_does_not_come_back(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            await created(here, NewTopic("t", 2))
            disk.fail_writes()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            disk.heal()
            assert await here.controller.delete_topics(["t"]) == {"t": None}
            assert "t" not in here.broker.image.topics
            (refused,) = await here.controller.create_topics([NewTopic("t", 1)])
            assert isinstance(refused, ApiError)
            assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
            asked = (await here.controller.auto_create(["t"]))["t"]
            assert asked is not None
            assert asked.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            assert here.broker.image.topics == {}
            assert await here.store.children(znodes.DELETE_TOPICS) == []
            await created(here, NewTopic("t", 1))

    play(story())


def test_with_no_directory_left_nothing_is_created_and_the_store_stays_clean(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 1))
            disk.fail_writes()
            with pytest.raises(ApiError):
                here.write("t")
            disk.heal()
            (refused,) = await here.controller.create_topics([NewTopic("u", 1)])
            assert isinstance(refused, ApiError)
            assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert await here.store.children(znodes.TOPICS) == ["t"]

    play(story())


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await here.store.set(znodes.CLUSTER_ID, znodes.encode_cluster_id("another"))
        with pytest.raises(ConfigError, match="another"):
            async with room(tmp_path, disk):
                pass

    play(story())


def test_the_broker_registers_as_kafka_does_and_leaves_nothing_alive(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            assert await here.store.children(znodes.BROKER_IDS) == ["0"]
            assert (await here.store.get(znodes.CONTROLLER)).owner != 0
            image = here.broker.image
            assert image.controller_id == 0
            endpoint = image.brokers[image.controller_id].endpoint("PLAINTEXT")
            assert endpoint is not None
            assert (endpoint.host, endpoint.port) == ("127.0.0.1", 9092)
            first = int((await here.store.get(znodes.CONTROLLER_EPOCH)).value)
        async with room(tmp_path, disk) as here:
            assert int((await here.store.get(znodes.CONTROLLER_EPOCH)).value) == first + 1

    play(story())
