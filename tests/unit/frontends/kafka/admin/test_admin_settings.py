"""Settings described and altered through the codecs, in every version served."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from tests.support.admin import ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room

TOPIC, BROKER, UNKNOWN = 2, 4, 99
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.mark.parametrize("version", versions(served(describe_configs)))
def test_describe_configs_says_where_values_come_from(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1, config={"retention.ms": "42"})])

        def of(kind: int, name: str, *keys: str) -> Any:
            return nested(
                served(describe_configs), version, "DescribeConfigsResource", resource_type=kind,
                resource_name=name, configuration_keys=keys or None,
            )  # fmt: skip

        fields = {"include_documentation": True} if version >= 3 else {}
        answer = await ask(
            here,
            served(describe_configs),
            version,
            resources=(
                of(TOPIC, "t", "retention.ms", "cleanup.policy", "no.such.key"),
                of(TOPIC, "t"),
                of(BROKER, "0", "listeners", "num.partitions", "log.retention.ms"),
                of(TOPIC, "nope"),
                of(TOPIC, "a/b"),
                of(BROKER, "7"),
                of(BROKER, ""),
                of(UNKNOWN, "g"),
                of(BROKER, "0", "broker.id", "node.id"),
            ),
            include_synonyms=True,
            **fields,
        )
        assert codes(answer.results) == [
            *["NONE"] * 3,
            "UNKNOWN_TOPIC_OR_PARTITION",
            "INVALID_TOPIC_EXCEPTION",
            "INVALID_REQUEST",
            "NONE",
            "INVALID_REQUEST",
            "NONE",
        ]
        topic = {entry.name: entry for entry in answer.results[0].configs}
        assert set(topic) == {"retention.ms", "cleanup.policy"}
        assert (topic["retention.ms"].value, topic["retention.ms"].config_source) == ("42", 1)
        found = [(one.name, one.value, one.source) for one in topic["retention.ms"].synonyms]
        assert found == [("retention.ms", "42", 1)]
        assert topic["cleanup.policy"].config_source == 5
        assert len(answer.results[1].configs) > 30
        broker = {entry.name: entry for entry in answer.results[2].configs}
        assert broker["listeners"].read_only
        assert (broker["num.partitions"].value, broker["num.partitions"].config_source) == ("6", 4)
        assert not broker["log.retention.ms"].read_only
        assert broker["log.retention.ms"].value == "604800000"
        assert [entry.value for entry in answer.results[8].configs] == ["0", "0"]
        if version >= 3:
            assert broker["num.partitions"].config_type == 3
            assert broker["num.partitions"].documentation

    tell(tmp_path, story, num_partitions="6")


@pytest.mark.parametrize("version", versions(served(alter_configs)))
def test_alter_configs_replaces_all(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1, config={"retention.ms": "42"})])

        def resource(name: str, **settings: str | None) -> Any:
            configs = tuple(
                nested(served(alter_configs), version, "AlterableConfig",
                       name=key.replace("_", "."), value=value)
                for key, value in settings.items()
            )  # fmt: skip
            return nested(
                served(alter_configs), version, "AlterConfigsResource", resource_type=TOPIC,
                resource_name=name, configs=configs,
            )  # fmt: skip

        answer = await ask(
            here, served(alter_configs), version, validate_only=False,
            resources=(resource("t", segment_bytes="5000"), resource("nope")),
        )  # fmt: skip
        assert codes(answer.responses) == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
        assert here.broker.image.topics["t"].config == {"segment.bytes": "5000"}
        answer = await ask(
            here, served(alter_configs), version, validate_only=False,
            resources=(resource("t", segment_bytes=None), resource("u"), resource("u")),
        )  # fmt: skip
        assert codes(answer.responses) == ["INVALID_CONFIG", "INVALID_REQUEST", "INVALID_REQUEST"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(incremental_alter_configs)))
def test_incremental_alter_configs_changes_single_keys(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1, config={"retention.ms": "42"})])

        async def alter(*changes: tuple[str, int, str | None], kind: int = TOPIC,
                        name: str = "t") -> str:  # fmt: skip
            configs = tuple(
                nested(served(incremental_alter_configs), version, "AlterableConfig", name=key,
                       config_operation=operation, value=value)
                for key, operation, value in changes
            )  # fmt: skip
            resource = nested(
                served(incremental_alter_configs), version, "AlterConfigsResource",
                resource_type=kind, resource_name=name, configs=configs,
            )  # fmt: skip
            answer = await ask(
                here, served(incremental_alter_configs), version, resources=(resource,),
                validate_only=False,
            )  # fmt: skip
            return codes(answer.responses)[0]

        assert await alter(("cleanup.policy", APPEND, "compact")) == "NONE"
        config = here.broker.image.topics["t"].config
        assert config == {"retention.ms": "42", "cleanup.policy": "delete,compact"}
        assert here.broker.partition("t", 0).log.config.compacted
        assert await alter(("cleanup.policy", SUBTRACT, "delete")) == "NONE"
        assert here.broker.image.topics["t"].config["cleanup.policy"] == "compact"
        assert await alter(("retention.ms", DELETE, None), ("flush.ms", SET, "9")) == "NONE"
        assert "retention.ms" not in here.broker.image.topics["t"].config
        assert await alter(("retention.ms", APPEND, "1")) == "INVALID_CONFIG"
        assert await alter(("retention.ms", SET, None)) == "INVALID_REQUEST"
        assert await alter(("retention.ms", 9, "1")) == "INVALID_REQUEST"
        twice = await alter(("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        assert twice == "INVALID_REQUEST"
        assert await alter(kind=UNKNOWN) == "INVALID_REQUEST"
        assert await alter(("message.max.bytes", SET, "77"), kind=BROKER, name="") == "NONE"
        assert here.broker.partition("t", 0).log.config.max_message_bytes == 77
        refused = await alter(("broker.id", SET, "1"), kind=BROKER, name="0")
        assert refused == "INVALID_REQUEST"

    tell(tmp_path, story)
