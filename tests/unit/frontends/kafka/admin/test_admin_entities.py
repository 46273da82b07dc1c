"""Settings of groups, client metrics subscriptions and loggers; elections on one broker."""

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_configs,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
)
from headrace.operations.configs import ConfigResource as ResourceType
from headrace.testing.disk import SimDisk
from tests.support.admin import MINUTE, ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

SET, DELETE, APPEND = 0, 1, 2
GROUP, METRICS, LOGGER = ResourceType.GROUP, ResourceType.CLIENT_METRICS, ResourceType.BROKER_LOGGER
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def alter(
    here: Room, kind: ResourceType, name: str, *changes: tuple[str, int, str | None], **fields: Any
) -> tuple[str, str | None]:
    """IncrementalAlterConfigs of one resource: code and message."""
    api, version = served(incremental_alter_configs), 1
    configs = tuple(
        nested(api, version, "AlterableConfig", name=one, config_operation=how, value=value)
        for one, how, value in changes
    )
    resource = nested(
        api, version, "AlterConfigsResource", resource_type=kind, resource_name=name,
        configs=configs,
    )  # fmt: skip
    answer = await ask(
        here, api, version, resources=(resource,), **{"validate_only": False, **fields}
    )
    return codes(answer.responses)[0], answer.responses[0].error_message


async def describe(here: Room, kind: ResourceType, name: str) -> dict[str, Any]:
    """DescribeConfigs of one resource: its entries by name; its error code as a KeyError."""
    api, version = served(describe_configs), 4
    resource = nested(
        api, version, "DescribeConfigsResource", resource_type=kind, resource_name=name,
        configuration_keys=None,
    )  # fmt: skip
    answer = await ask(
        here, api, version, resources=(resource,), include_synonyms=True,
        include_documentation=True,
    )  # fmt: skip
    (result,) = answer.results
    if codes([result]) != ["NONE"]:
        raise KeyError(codes([result])[0])
    return {entry.name: entry for entry in result.configs}


async def listed(here: Room, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    fields: dict[str, Any] = {"resource_types": kinds} if version >= 1 else {}
    answer = await ask(here, served(list_config_resources), version, **fields)
    assert codes([answer]) == ["NONE"]
    if version == 0:
        return [(METRICS, one.resource_name) for one in answer.config_resources]
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_a_groups_settings_hold_from_now_on_and_after_a_restart(tmp_path: Path) -> None:
    disk = SimDisk()

    async def first() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            configs = here.broker.group_configs
            told: list[str] = []
            configs.changed.append(told.append)
            assert configs.value("g/1", SESSION, here.broker.config) == 45_000
            assert await alter(here, GROUP, "g/1", (SESSION, SET, "50000")) == ("NONE", None)
            assert told == ["g/1"]
            assert configs.value("g/1", SESSION, here.broker.config) == 50_000
            assert configs.value("other", SESSION, here.broker.config) == 45_000
            found = await describe(here, GROUP, "g/1")
            assert (found[SESSION].value, found[SESSION].config_source) == ("50000", 8)
            first = found[SESSION].synonyms[0]
            assert (first.name, first.value, first.source) == (SESSION, "50000", 8)
            assert (found[HEARTBEAT].value, found[HEARTBEAT].config_source) == ("5000", 5)
            assert all(entry.documentation for entry in found.values())

    async def second() -> None:
        async with room(tmp_path, disk) as here:
            configs = here.broker.group_configs
            assert configs.value("g/1", SESSION, here.broker.config) == 50_000
            assert await listed(here, GROUP) == [(GROUP, "g/1")]
            assert (await alter(here, GROUP, "g/1", (SESSION, DELETE, None)))[0] == "NONE"
            assert await listed(here, GROUP) == []

    async def third() -> None:
        async with room(tmp_path, disk) as here:
            assert here.broker.group_configs.texts == {}

    play(first())
    play(second())
    play(third())


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code", "message"),
    [
        (GROUP, "g", "no.such.key", "1", "INVALID_CONFIG", "Unknown group config name"),
        (GROUP, "g", SESSION, "x", "INVALID_CONFIG", "whole number"),
        (GROUP, "g", SESSION, "0", "INVALID_CONFIG", "at least 1"),
        (GROUP, "g", SESSION, "5000", "INVALID_CONFIG", "must be greater than"),
        (GROUP, "", SESSION, "50000", "INVALID_REQUEST", "must not be empty"),
        (METRICS, "", "metrics", "*", "INVALID_REQUEST", "must not be empty"),
        (METRICS, "m", "no.such", "1", "INVALID_REQUEST", "Unknown client metrics"),
        (METRICS, "m", "interval.ms", "99", "INVALID_REQUEST", "between 100"),
        (METRICS, "m", "match", "client_id", "INVALID_CONFIG", "Illegal client matching"),
        (METRICS, "m", "match", "shoe_size=4", "INVALID_CONFIG", "Illegal client matching"),
        (METRICS, "m", "match", "client_id=(", "INVALID_CONFIG", "Illegal client matching"),
        (LOGGER, "7", "root", "INFO", "INVALID_REQUEST", "Unexpected broker id"),
        (LOGGER, "0", "no.such", "INFO", "INVALID_CONFIG", "does not exist"),
        (LOGGER, "0", "root", "LOUD", "INVALID_CONFIG", "not a supported log level"),
    ],
)
def test_what_cannot_be_set_is_refused(
    tmp_path: Path, kind: ResourceType, name: str, key: str, value: str, code: str, message: str
) -> None:
    async def story(here: Room) -> None:
        found, said = await alter(here, kind, name, (key, SET, value))
        assert found == code
        assert said is not None
        assert message in said
        assert await listed(here, GROUP, METRICS) == []

    tell(tmp_path, story)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        change = (SESSION, SET, "50000")
        assert (await alter(here, GROUP, "g", change, validate_only=True))[0] == "NONE"
        assert here.broker.group_configs.texts == {}

    tell(tmp_path, story)


def test_a_subscriptions_lists_grow_and_its_settings_are_shown(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        assert (await alter(here, METRICS, "m", ("metrics", SET, "a.,b.")))[0] == "NONE"
        assert (await alter(here, METRICS, "m", ("metrics", APPEND, "c.")))[0] == "NONE"
        found = await describe(here, METRICS, "m")
        assert (found["metrics"].value, found["metrics"].config_source) == ("a.,b.,c.", 7)
        assert (found["interval.ms"].value, found["interval.ms"].config_source) == ("300000", 5)
        assert found["interval.ms"].synonyms == ()
        with pytest.raises(KeyError, match="INVALID_REQUEST"):
            await describe(here, METRICS, "")

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(list_config_resources)))
def test_what_has_settings_is_listed_by_kind(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        await alter(here, METRICS, "m", ("metrics", SET, "*"))
        await alter(here, GROUP, "g", (SESSION, SET, "50000"))
        if version == 0:
            assert await listed(here, version=0) == [(METRICS, "m")]
            return
        everything = [(2, "t"), (4, "0"), (8, "0"), (16, "m"), (32, "g")]
        assert await listed(here) == everything
        assert await listed(here, 32, 2) == [(2, "t"), (32, "g")]
        answer = await ask(here, served(list_config_resources), version, resource_types=(2, 3))
        assert codes([answer]) == ["UNSUPPORTED_VERSION"]

    tell(tmp_path, story)


def test_loggers_are_shown_and_told_how_much_to_say(tmp_path: Path) -> None:
    name = "headrace.cluster.controller.controller"

    async def story(here: Room) -> None:
        before = (await describe(here, LOGGER, "0"))[name]
        assert before.config_source == 6
        dry = await alter(here, LOGGER, "0", (name, SET, "DEBUG"), validate_only=True)
        assert dry[0] == "NONE"
        assert (await describe(here, LOGGER, "0"))[name].value == before.value
        assert (await alter(here, LOGGER, "0", (name, SET, "DEBUG")))[0] == "NONE"
        assert logging.getLogger(name).level == logging.DEBUG
        assert (await describe(here, LOGGER, "0"))[name].value == "DEBUG"
        assert (await alter(here, LOGGER, "0", (name, DELETE, None)))[0] == "NONE"
        assert (await describe(here, LOGGER, "0"))[name].value == before.value
        assert (await alter(here, LOGGER, "0", ("root", DELETE, None)))[0] == "INVALID_REQUEST"
        assert (await alter(here, LOGGER, "0", (name, APPEND, "INFO")))[0] == "INVALID_REQUEST"
        with pytest.raises(KeyError, match="INVALID_REQUEST"):
            await describe(here, LOGGER, "")
        resource = nested(
            served(alter_configs), 2, "AlterConfigsResource", resource_type=LOGGER,
            resource_name="0", configs=(),
        )  # fmt: skip
        answer = await ask(
            here, served(alter_configs), 2, resources=(resource,), validate_only=False
        )
        assert codes(answer.responses) == ["INVALID_REQUEST"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(elect_leaders)))
def test_one_broker_needs_no_election(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 2)])

        async def elect(*wanted: tuple[str, tuple[int, ...]], kind: int = 0) -> Any:
            topics = tuple(
                nested(
                    served(elect_leaders), version, "TopicPartitions", topic=name, partitions=some
                )
                for name, some in wanted
            )
            fields: dict[str, Any] = {"election_type": kind} if version >= 1 else {}
            answer = await ask(
                here, served(elect_leaders), version, topic_partitions=topics or None,
                timeout=MINUTE, **fields,
            )  # fmt: skip
            if version >= 1 and codes([answer]) != ["NONE"]:
                return codes([answer])
            return {
                one.topic: codes(one.partition_result) for one in answer.replica_election_results
            }

        assert await elect(("t", (0, 1, 2)), ("nope", (0,))) == {
            "t": ["ELECTION_NOT_NEEDED", "ELECTION_NOT_NEEDED", "UNKNOWN_TOPIC_OR_PARTITION"],
            "nope": ["UNKNOWN_TOPIC_OR_PARTITION"],
        }
        assert await elect() == {}
        if version >= 1:
            assert await elect(("t", (0,)), kind=1) == {"t": ["ELECTION_NOT_NEEDED"]}
            assert await elect(("t", (0,)), kind=5) == ["INVALID_REQUEST"]

    tell(tmp_path, story)
