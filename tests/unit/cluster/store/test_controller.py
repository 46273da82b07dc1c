"""The controller: topics come, grow, go and are found again after any stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, Offset
from headrace.ports.store import NoNode
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import append, created, play, room


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
