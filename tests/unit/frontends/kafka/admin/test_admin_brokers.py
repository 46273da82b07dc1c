"""What clients may set for brokers, and where DescribeConfigs says that values come from."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from headrace.testing.disk import SimDisk
from tests.support.admin import ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OWN, SHARED, STATIC, DEFAULT = 2, 3, 4, 5
RELOGIN, REPLICAS = "sasl.kerberos.min.time.before.relogin", "min.insync.replicas"


async def alter(here: Room, name: str, key: str, value: str | None = None) -> str:
    """Set one key of brokers, or delete it (None)."""
    api, version = served(incremental_alter_configs), 1
    change = nested(
        api, version, "AlterableConfig", name=key, config_operation=SET if value else DELETE,
        value=value,
    )  # fmt: skip
    resource = nested(
        api, version, "AlterConfigsResource", resource_type=BROKER, resource_name=name,
        configs=(change,),
    )  # fmt: skip
    answer = await ask(here, api, version, resources=(resource,), validate_only=False)
    return codes(answer.responses)[0]


async def describe(here: Room, kind: int, name: str) -> dict[str, Any]:
    """All entries of one resource, by key."""
    api, version = served(describe_configs), 4
    resource = nested(
        api, version, "DescribeConfigsResource", resource_type=kind, resource_name=name,
        configuration_keys=None,
    )  # fmt: skip
    answer = await ask(
        here, api, version, resources=(resource,), include_synonyms=True,
        include_documentation=False,
    )  # fmt: skip
    return {entry.name: entry for entry in answer.results[0].configs}


def places(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


@pytest.mark.parametrize("version", versions(served(alter_configs)))
def test_alter_configs_takes_keys_that_are_known_and_without_effect(
    tmp_path: Path, version: int
) -> None:
    api = served(alter_configs)

    async def story(here: Room) -> None:
        one = nested(api, version, "AlterableConfig", name=RELOGIN, value="58000")
        resource = nested(
            api, version, "AlterConfigsResource", resource_type=BROKER, resource_name="0",
            configs=(one,),
        )  # fmt: skip
        answer = await ask(here, api, version, resources=(resource,), validate_only=False)
        assert codes(answer.responses) == ["NONE"]
        entry = (await describe(here, BROKER, "0"))[RELOGIN]
        assert (entry.value, entry.config_source, entry.read_only) == ("58000", OWN, False)

    tell(tmp_path, story)


def test_what_is_without_effect_is_kept_over_a_restart_and_deleted(tmp_path: Path) -> None:
    disk = SimDisk()

    async def first() -> None:
        async with room(tmp_path, disk) as here:
            assert await alter(here, "", "background.threads", "11") == "NONE"

    async def second() -> None:
        async with room(tmp_path, disk) as here:
            entry = (await describe(here, BROKER, ""))["background.threads"]
            assert (entry.value, entry.config_source) == ("11", SHARED)
            assert places(entry) == [("background.threads", "11", SHARED)]
            assert await alter(here, "", "background.threads") == "NONE"
            assert "background.threads" not in await describe(here, BROKER, "0")

    play(first())
    play(second())


@pytest.mark.parametrize(
    ("name", "key", "code"),
    [
        ("0", RELOGIN, "NONE"),
        ("", RELOGIN, "INVALID_REQUEST"),
        ("", "background.threads", "NONE"),
        ("0", "zookeeper.connect", "INVALID_REQUEST"),
        ("0", "process.roles", "INVALID_REQUEST"),
        ("0", "ssl.keystore.location", "INVALID_REQUEST"),
        ("0", "listener.name.outside.ssl.keystore.location", "NONE"),
        ("0", "listener.name.outside.sasl.jaas.config", "NONE"),
        ("", "listener.name.outside.sasl.jaas.config", "INVALID_REQUEST"),
        ("0", "listener.name.outside.zookeeper.connect", "INVALID_REQUEST"),
        ("0", "no.such.key", "INVALID_REQUEST"),
    ],
)
def test_of_keys_without_effect_those_can_be_altered_that_kafka_alters(
    tmp_path: Path, name: str, key: str, code: str
) -> None:
    async def story(here: Room) -> None:
        assert await alter(here, name, key, "1") == code

    tell(tmp_path, story)


@pytest.mark.parametrize("key", ["sasl.jaas.config", "listener.name.x.ssl.keystore.password"])
def test_secrets_without_effect_are_not_told_either(tmp_path: Path, key: str) -> None:
    async def story(here: Room) -> None:
        assert await alter(here, "0", key, "hunter2") == "NONE"
        entry = (await describe(here, BROKER, "0"))[key]
        assert (entry.value, entry.is_sensitive, places(entry)) == (None, True, [(key, None, OWN)])

    tell(tmp_path, story)


def test_min_insync_replicas_is_set_for_the_whole_cluster(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics(
            [NewTopic("t", 1), NewTopic("own", 1, config={REPLICAS: "1"})]
        )
        default = [(REPLICAS, "1", SHARED), (REPLICAS, "1", DEFAULT)]
        topic = (await describe(here, TOPIC, "t"))[REPLICAS]
        assert (topic.value, topic.config_source, places(topic)) == ("1", SHARED, default)
        own = (await describe(here, TOPIC, "own"))[REPLICAS]
        assert (own.config_source, places(own)) == (1, [(REPLICAS, "1", 1), *default])
        broker = (await describe(here, BROKER, "0"))[REPLICAS]
        assert (broker.config_source, places(broker)) == (SHARED, default)
        cluster = await describe(here, BROKER, "")
        assert {name: places(entry) for name, entry in cluster.items()} == {REPLICAS: default[:1]}

    tell(tmp_path, story)


def test_min_insync_replicas_of_the_file_and_altered_values_are_told_in_their_order(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        found = (await describe(here, TOPIC, "t"))[REPLICAS]
        behind = [(REPLICAS, "2", STATIC), (REPLICAS, "1", DEFAULT)]
        assert (found.value, places(found)) == ("2", [(REPLICAS, "2", SHARED), *behind])
        assert await alter(here, "", REPLICAS, "3") == "NONE"
        found = (await describe(here, TOPIC, "t"))[REPLICAS]
        assert (found.value, places(found)) == ("3", [(REPLICAS, "3", SHARED), *behind])
        assert await alter(here, "0", REPLICAS, "4") == "NONE"
        found = (await describe(here, TOPIC, "t"))[REPLICAS]
        assert found.value == "4"
        assert places(found) == [(REPLICAS, "4", OWN), (REPLICAS, "3", SHARED), *behind]

    tell(tmp_path, story, min_insync_replicas="2")


def test_a_key_named_twice_is_refused_by_alter_configs(tmp_path: Path) -> None:
    api = served(alter_configs)

    async def story(here: Room) -> None:
        one = nested(api, 2, "AlterableConfig", name=RELOGIN, value="58000")
        resource = nested(
            api, 2, "AlterConfigsResource", resource_type=BROKER, resource_name="0",
            configs=(one, one),
        )  # fmt: skip
        answer = await ask(here, api, 2, resources=(resource,), validate_only=False)
        assert codes(answer.responses) == ["INVALID_REQUEST"]

    tell(tmp_path, story)
