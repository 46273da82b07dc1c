"""Whoever asks what he may do to a cluster, a topic or a group is told that, and nobody else is."""

from typing import TYPE_CHECKING, Any

import pytest

from headrace.frontends.kafka.authentication.authorisation import WRITE_TOPIC, Ask
from headrace.frontends.kafka.connection.response_entities import OPERATIONS_UNKNOWN
from headrace.security.authorizer import OPERATIONS_OF, Operation, ResourceType
from headrace.wire.kafka.api import ApiKey
from tests.support.security.authorisation import Rules, call, open_session
from tests.support.security.authorisation_values import ALICE
from tests.unit.frontends.kafka.authentication.test_authorisation import in_room

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes.broker import Room

CLUSTER = {"endpoint_type": 1}
SHARE = {"group_ids": ["s", "absent"]}
PAGE = {"topics": [{"name": "absent"}, {"name": "t"}], "response_partition_limit": 10}


def bits(kind: ResourceType, *without: Operation) -> int:
    return sum(1 << operation for operation in OPERATIONS_OF[kind] if operation not in without)


@pytest.mark.parametrize(
    ("key", "version", "values", "kind"),
    [
        (ApiKey.DESCRIBE_CLUSTER, 2, CLUSTER, ResourceType.CLUSTER),
        (ApiKey.SHARE_GROUP_DESCRIBE, 1, SHARE, ResourceType.GROUP),
    ],
)
def test_operations_are_told_when_they_are_asked_for(
    tmp_path: "Path", key: ApiKey, version: int, values: dict[str, Any], kind: ResourceType
) -> None:
    asking = f"include_{'cluster_' if kind is ResourceType.CLUSTER else ''}authorized_operations"

    async def test(here: "Room") -> None:
        dispatcher, session = open_session(here, ALICE)

        async def told(*, asked: bool) -> list[int]:
            answer = await call(here, session, key, version, {**values, asking: asked})
            if kind is ResourceType.CLUSTER:
                return [answer.cluster_authorized_operations]
            return [group.authorized_operations for group in answer.groups]

        unknown = [OPERATIONS_UNKNOWN] * len(values.get("group_ids", "1"))
        assert await told(asked=False) == unknown
        assert await told(asked=True) == [bits(kind), *unknown[1:]]
        refused = Operation.ALTER_CONFIGS
        here.broker.authorizer = Rules(Ask(refused, kind))
        assert await told(asked=True) == [bits(kind, refused), *unknown[1:]]
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_a_page_of_topics_tells_what_may_be_done_to_each(tmp_path: "Path") -> None:
    async def test(here: "Room") -> None:
        dispatcher, session = open_session(here, ALICE)
        for rules, without in ((Rules(), ()), (Rules(WRITE_TOPIC), (Operation.WRITE,))):
            here.broker.authorizer = rules
            answer = await call(here, session, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, PAGE)
            told = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
            assert told == dict.fromkeys(("absent", "t"), bits(ResourceType.TOPIC, *without))
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_nothing_is_told_of_an_endpoint_that_brokers_are_not(tmp_path: "Path") -> None:
    async def test(here: "Room") -> None:
        dispatcher, session = open_session(here, ALICE)
        asked = {"endpoint_type": 2, "include_cluster_authorized_operations": True}
        answer = await call(here, session, ApiKey.DESCRIBE_CLUSTER, 2, asked)
        assert answer.cluster_authorized_operations == OPERATIONS_UNKNOWN
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_operations_nobody_asked_for_are_the_least_number_of_32_bits() -> None:
    assert OPERATIONS_UNKNOWN == -2147483648
