"""The controller's settings: of topics and of the broker, taken at run time, found after a stop."""

from pathlib import Path

import pytest

from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import created, play, room

SET, DELETE = AlterOperation.SET, AlterOperation.DELETE


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


def test_an_internal_topic_made_by_hand_is_compacted_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            own = {"segment.bytes": "1234567"}
            (topic,) = await created(here, NewTopic(OFFSETS_TOPIC, 1, config=own))
            assert topic.config["cleanup.policy"] == "compact"
            assert topic.config["segment.bytes"] == "1234567"

    play(story())


def test_rates_of_throttles_are_described_where_they_are_set_and_nowhere_else(
    tmp_path: Path,
) -> None:
    key = "follower.replication.throttled.rate"

    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            settings = here.controller.settings
            assert key not in {entry.name for entry in settings.describe_broker("0")}
            await settings.alter_broker("0", [Alteration(key, SET, "700")])
            shown = {entry.name: entry.value for entry in settings.describe_broker("0")}
            assert shown[key] == "700"
            assert here.broker.throttles.follower.bound == 700
            with pytest.raises(ApiError, match="INVALID_REQUEST"):
                await settings.alter_broker("0", [Alteration(key, SET, "-1")])
            for rate in (key, "replica.alter.log.dirs.io.max.bytes.per.second"):
                await settings.alter_broker("0", [Alteration(rate, DELETE, None)])
            assert key not in {entry.name for entry in settings.describe_broker("0")}

    play(story())
