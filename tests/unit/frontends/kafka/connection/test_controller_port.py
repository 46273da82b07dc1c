"""Frontends ask the controller through its port, and say so where it is another broker."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import TopicInfo
from headrace.broker.producer_ids import ProducerIds
from headrace.cluster.controller.producer_id_source import ProducerIdSource
from headrace.cluster.store.znodes import ProducerIdBlock
from headrace.cluster.topics.creation import NewTopic, Spend
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.metadata import metadata
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.net.pending import Pending
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import metadata as metadata_wire
from tests.support.admin import MINUTE, ask, codes, nested, tell
from tests.support.cluster.controller_port import OnlyThePort
from tests.support.processes.broker import Room, until

TOPIC_RESOURCE = 2
Fields = dict[str, Any]
Ask = Callable[[Room], Coroutine[Any, Any, Any]]


def api(key: ApiKey) -> Api:
    return next(found for found in APIS if found.key is key)


async def create(here: Room, *names: str, version: int = 7) -> Any:
    topics = tuple(
        nested(
            api(ApiKey.CREATE_TOPICS), version, "CreatableTopic",
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=(),
        )
        for name in names
    )  # fmt: skip
    return await ask(
        here, api(ApiKey.CREATE_TOPICS), version, topics=topics, timeout=MINUTE, validate_only=False
    )


async def delete(here: Room, *names: str, version: int = 5) -> Any:
    return await ask(
        here, api(ApiKey.DELETE_TOPICS), version, topic_names=names, timeout=MINUTE
    )  # fmt: skip


async def grow(here: Room, *names: str, version: int = 3) -> Any:
    topics = tuple(
        nested(
            api(ApiKey.CREATE_PARTITIONS), version, "CreatePartitionsTopic",
            name=name, count=3, assignments=None,
        )
        for name in names
    )  # fmt: skip
    return await ask(
        here, api(ApiKey.CREATE_PARTITIONS), version,
        topics=topics, timeout=MINUTE, validate_only=False,
    )  # fmt: skip


async def elect(here: Room, name: str | None, version: int = 2) -> Any:
    wanted = None
    if name is not None:
        wanted = (nested(api(ApiKey.ELECT_LEADERS), version, "TopicPartitions",
                         topic=name, partitions=(0, 7)),)  # fmt: skip
    return await ask(
        here, api(ApiKey.ELECT_LEADERS), version,
        election_type=0, topic_partitions=wanted, timeout=MINUTE,
    )  # fmt: skip


async def reassign(here: Room, name: str, version: int = 1) -> Any:
    key = api(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    partition = nested(key, version, "ReassignablePartition", partition_index=0, replicas=(0,))
    topic = nested(key, version, "ReassignableTopic", name=name, partitions=(partition,))
    return await ask(here, key, version, topics=(topic,), timeout=MINUTE)


async def list_reassignments(here: Room) -> Any:
    return await ask(here, api(ApiKey.LIST_PARTITION_REASSIGNMENTS), 0, topics=None, timeout=MINUTE)


async def alter_topic(here: Room, name: str) -> Any:
    key = api(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    config = nested(key, 1, "AlterableConfig", name="retention.ms", config_operation=0, value="9")
    resource = nested(
        key, 1, "AlterConfigsResource",
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=(config,),
    )  # fmt: skip
    return await ask(here, key, 1, resources=(resource,), validate_only=False)


async def alter_quotas(here: Room) -> Any:
    key = api(ApiKey.ALTER_CLIENT_QUOTAS)
    entity = nested(key, 1, "EntityData", entity_type="client-id", entity_name="c")
    change = nested(key, 1, "OpData", key="producer_byte_rate", value=9.0, remove=False)
    entry = nested(key, 1, "EntryData", entity=(entity,), ops=(change,))
    return await ask(here, key, 1, entries=(entry,), validate_only=False)


async def describe_topic(here: Room, name: str) -> Any:
    key = api(ApiKey.DESCRIBE_CONFIGS)
    resource = nested(
        key, 4, "DescribeConfigsResource",
        resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None,
    )  # fmt: skip
    return await ask(
        here, key, 4, resources=(resource,), include_synonyms=False, include_documentation=False
    )


async def list_configs(here: Room) -> Any:
    return await ask(here, api(ApiKey.LIST_CONFIG_RESOURCES), 1, resource_types=(16, 32))


async def find_coordinator(here: Room) -> Any:
    answer = await ask(here, api(ApiKey.FIND_COORDINATOR), 4, key_type=0, coordinator_keys=("g",))
    return answer.coordinators[0]


async def new_producer(here: Room) -> Any:
    return await ask(
        here, api(ApiKey.INIT_PRODUCER_ID), 4, transactional_id=None,
        transaction_timeout=MINUTE, producer_id=-1, producer_epoch=-1,
    )  # fmt: skip


async def join_share_group(here: Room) -> Any:
    return await ask(
        here, api(ApiKey.SHARE_GROUP_HEARTBEAT), 1, group_id="g", member_id="m", member_epoch=0,
        rack_id=None, subscribed_topic_names=("t",),
    )  # fmt: skip


async def look_for(here: Room, name: str) -> metadata_wire.TopicResponse:
    """What Metadata says of a topic that it may create."""
    asked = metadata_wire.MetadataRequest([metadata_wire.TopicRequest(name, bytes(16))])
    body = memoryview(bytearray(metadata_wire.encode_request(12, asked)))
    shared = here.server.dispatcher.shared
    pending = metadata.handle(replace(here.context(ApiKey.METADATA, 12), shared=shared), body)
    assert isinstance(pending, Pending)
    for _ in range(5000):
        if pending.done:
            break
        await asyncio.sleep(0.001)
    answer = pending.body
    assert isinstance(answer, bytes)
    (topic,) = metadata_wire.decode_response(12, memoryview(answer)).topics
    return topic


ASKED: list[tuple[str, Ask, str]] = [
    ("CreateTopics", lambda here: create(here, "u"), "create_topics describe_planned"),
    ("DeleteTopics", lambda here: delete(here, "t"), "delete_topics"),
    ("CreatePartitions", lambda here: grow(here, "t"), "create_partitions"),
    ("ElectLeaders", lambda here: elect(here, "t"), "elect"),
    ("AlterPartitionReassignments", lambda here: reassign(here, "t"), "reassign"),
    ("ListPartitionReassignments", list_reassignments, "reassigning"),
    ("IncrementalAlterConfigs", lambda here: alter_topic(here, "t"), "alter_topic"),
    ("AlterClientQuotas", alter_quotas, "alter"),
    ("DescribeConfigs", lambda here: describe_topic(here, "t"), "describe_topic"),
    ("ListConfigResources", list_configs, "names"),
    ("Metadata", lambda here: look_for(here, "u"), "auto_create"),
    ("FindCoordinator", find_coordinator, "ensure_internal_topic"),
    ("InitProducerId", new_producer, "next_producer_id"),
    ("ShareGroupHeartbeat", join_share_group, "ensure_internal_topic"),
]


@pytest.mark.parametrize(("question", "named"), [row[1:] for row in ASKED],
                         ids=[row[0] for row in ASKED])  # fmt: skip
def test_a_controller_that_is_but_its_port_is_enough(
    tmp_path: Path, question: Ask, named: str
) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 2)])
        port: Any = OnlyThePort(here.controller)
        here.controller = port
        await question(here)
        assert port.asked
        assert (
            set(named.split())
            <= set(port.asked)
            <= {*named.split(), "is_controller", "not_controller"}
        )

    tell(
        tmp_path, story, offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
    )  # fmt: skip


def test_what_comes_late_from_the_controller_is_in_the_answer(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        port: Any = OnlyThePort(here.controller)
        here.controller = port
        assert codes((await create(here, "t", "u")).topics) == ["NONE", "NONE"]
        assert codes((await grow(here, "t", "v")).results) == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
        assert len(here.broker.image.topics["t"].partitions) == 3
        assert codes((await delete(here, "t")).responses) == ["NONE"]
        assert "t" not in here.broker.image.topics
        assert (await look_for(here, "w")).error_code == ErrorCode.NONE
        assert (await find_coordinator(here)).port > 0
        assert OFFSETS_TOPIC in here.broker.image.topics
        assert codes([await join_share_group(here)]) != ["COORDINATOR_NOT_AVAILABLE"]
        assert SHARE_STATE_TOPIC in here.broker.image.topics
        assert (await new_producer(here)).producer_id > NO_PRODUCER_ID

    tell(
        tmp_path, story, offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
    )  # fmt: skip


def two_brokers(story: Callable[[Room, Room], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Play with the controller and with another broker, which have one topic `t`."""
    loop = SimLoop(1)
    given = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = SimCluster(loop, 1, given)

    async def whole() -> None:
        rooms = []
        for number in (0, 1):
            server = await cluster.start(number)
            store: Any = None
            rooms.append(Room(server, cluster.worlds[number].sim_disk, store))
        await cluster.controller().create_topics([NewTopic("t", 2, 1)])
        await story(*rooms)
        for number in (0, 1):
            await cluster.stop(number)

    loop.play(whole())


@pytest.mark.parametrize("version", [2, 7])
def test_another_broker_than_the_controller_creates_no_topic(version: int) -> None:
    async def story(first: Room, other: Room) -> None:
        answer = await create(other, "u", "t", "t", version=version)
        assert {topic.name: codes([topic]) for topic in answer.topics} == {
            "u": ["NOT_CONTROLLER"], "t": ["NOT_CONTROLLER"],
        }  # fmt: skip
        assert "u" not in first.broker.image.topics
        made = await create(first, "u", "t", version=version)
        assert {topic.name: codes([topic]) for topic in made.topics} == {
            "u": ["NONE"], "t": ["TOPIC_ALREADY_EXISTS"],
        }  # fmt: skip

    two_brokers(story)


@pytest.mark.parametrize("version", [1, 5])
def test_another_broker_than_the_controller_deletes_no_topic(version: int) -> None:
    async def story(first: Room, other: Room) -> None:
        answer = await delete(other, "t", "nope", version=version)
        assert [topic.name for topic in answer.responses] == ["t", "nope"]
        assert codes(answer.responses) == ["NOT_CONTROLLER"] * 2
        assert "t" in first.broker.image.topics
        assert codes((await delete(first, "t", version=version)).responses) == ["NONE"]

    two_brokers(story)


def test_that_topics_stay_is_the_controllers_to_say() -> None:
    async def story(first: Room, other: Room) -> None:
        assert codes((await delete(other, "t")).responses) == ["NOT_CONTROLLER"]
        assert codes((await delete(first, "t")).responses) == ["TOPIC_DELETION_DISABLED"]

    two_brokers(story, delete_topic_enable="false")


def test_another_broker_than_the_controller_grows_no_topic() -> None:
    async def story(first: Room, other: Room) -> None:
        answer = await grow(other, "t", "nope", "nope")
        assert {topic.name: codes([topic]) for topic in answer.results} == {
            "t": ["NOT_CONTROLLER"], "nope": ["NOT_CONTROLLER"],
        }  # fmt: skip
        assert len(first.broker.image.topics["t"].partitions) == 2
        assert codes((await grow(first, "t")).results) == ["NONE"]

    two_brokers(story)


@pytest.mark.parametrize(("name", "count"), [("t", 2), ("nope", 2), (None, 2)])
def test_another_broker_than_the_controller_elects_nobody(name: str | None, count: int) -> None:
    async def story(first: Room, other: Room) -> None:
        answer = await elect(other, name)
        assert codes([answer]) == ["NONE"]
        (topic,) = answer.replica_election_results
        assert topic.topic == (name or "t")
        assert codes(topic.partition_result) == ["NOT_CONTROLLER"] * count
        for told in (await elect(first, name)).replica_election_results:
            assert "NOT_CONTROLLER" not in codes(told.partition_result)

    two_brokers(story)


def test_another_broker_than_the_controller_knows_of_no_reassignment() -> None:
    async def story(first: Room, other: Room) -> None:
        for answer in (await reassign(other, "t"), await list_reassignments(other)):
            assert codes([answer]) == ["NOT_CONTROLLER"]
        assert (await reassign(other, "t")).responses == ()
        (topic,) = (await reassign(first, "t")).responses
        assert codes(topic.partitions) == ["NONE"]
        assert codes([await list_reassignments(first)]) == ["NONE"]

    two_brokers(story)


def test_settings_and_quotas_are_altered_by_any_broker() -> None:
    async def story(first: Room, other: Room) -> None:
        assert codes((await alter_topic(other, "t")).responses) == ["NONE"]
        assert codes((await alter_quotas(other)).entries) == ["NONE"]
        assert (await new_producer(other)).error_code == ErrorCode.NONE

    two_brokers(story)


def test_topics_that_nobody_creates_by_name_the_controller_creates_for_any_broker() -> None:
    async def story(first: Room, other: Room) -> None:
        assert (await look_for(other, "u")).error_code == ErrorCode.NONE
        assert codes([await find_coordinator(other)]) == ["NONE"]
        assert codes([await join_share_group(other)]) == ["NOT_COORDINATOR"]  # that is the other
        for name in ("u", OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            shown = other.broker.image.topics[name]
            assert shown == first.broker.image.topics[name]
        assert other.broker.image.topics[OFFSETS_TOPIC].config["cleanup.policy"] == "compact"

    two_brokers(story, auto_create_topics_enable="true")


def test_a_topic_is_not_there_yet_while_another_broker_becomes_the_controller() -> None:
    async def story(first: Room, other: Room) -> None:
        async def moved(_: NewTopic, __: Spend) -> TopicInfo | ApiError:
            raise ApiError(ErrorCode.NOT_CONTROLLER)

        async def no_ids() -> ProducerIdBlock:
            raise AssertionError("nobody asks for ids")

        other.controller.forward(moved, no_ids)
        assert (await look_for(other, "u")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "u" not in first.broker.image.topics

    two_brokers(story, auto_create_topics_enable="true")


def test_what_the_controller_refuses_to_create_is_refused_by_any_broker() -> None:
    async def story(first: Room, other: Room) -> None:
        assert (await look_for(other, "u")).error_code == ErrorCode.POLICY_VIOLATION
        assert "u" not in first.broker.image.topics

    two_brokers(story, auto_create_topics_enable="true", partitions_max="2")


def test_producer_ids_come_from_the_block_at_hand_and_then_from_the_controller(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        port: Any = OnlyThePort(here.controller)
        ids = ProducerIds()
        ids.refill(7, 7)
        source = ProducerIdSource(ids, port)
        given: list[int | ApiError] = []
        source.new_producer_id(given.append)
        assert (given, port.asked) == ([7], [])
        source.new_producer_id(given.append)
        assert given == [7]
        await until(lambda: len(given) == 2)
        assert isinstance(given[1], int)
        assert port.asked == ["next_producer_id"]
        source.close()

    tell(tmp_path, story)
