"""The admin APIs of topics, brokers and records through their codecs, in every version served."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    incremental_alter_configs,
)
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.metadata import describe_cluster, describe_topic_partitions
from headrace.frontends.kafka.transactions import init_producer_id
from headrace.model.errors import ErrorCode
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import VERSIONS, ApiKey
from tests.support.admin import MINUTE, ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

ALL = (
    served(alter_configs),
    served(create_partitions),
    served(create_topics),
    served(delete_records),
    served(delete_topics),
    served(describe_cluster),
    served(describe_configs),
    served(describe_log_dirs),
    served(describe_topic_partitions),
    served(incremental_alter_configs),
    served(init_producer_id),
)


def wanted(version: int, name: str, **fields: Any) -> Any:
    """A topic to create."""
    given = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return nested(
        served(create_topics), version, "CreatableTopic", name=name, **{**given, **fields}
    )


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.key.name)
def test_every_version_of_kafka_4_3_is_served(api: Api) -> None:
    assert (api.min_version, api.max_version) == VERSIONS[ApiKey(api.key)]


CREATED = {
    "good": "NONE",
    "manual": "NONE",
    "twice": "INVALID_REQUEST",
    "a.b": "NONE",
    "a_b": "INVALID_TOPIC_EXCEPTION",
    "no/slash": "INVALID_TOPIC_EXCEPTION",
    "..": "INVALID_TOPIC_EXCEPTION",
    "none": "INVALID_PARTITIONS",
    "three": "INVALID_REPLICATION_FACTOR",
    "zero": "INVALID_REPLICATION_FACTOR",
    "both": "INVALID_REQUEST",
    "bad-config": "INVALID_CONFIG",
    "__cluster_metadata": "INVALID_REQUEST",
}
"""What becomes of the topics asked for, by their names."""


@pytest.mark.parametrize("version", versions(served(create_topics)))
def test_create_topics_answers_each_topic_for_itself(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        config = nested(
            served(create_topics), version, "CreatableTopicConfig", name="retention.ms", value="x"
        )
        assigned = nested(
            served(create_topics),
            version,
            "CreatableReplicaAssignment",
            partition_index=0,
            broker_ids=(0,),
        )
        manual = {"num_partitions": -1, "replication_factor": -1, "assignments": (assigned,)}
        answer = await ask(
            here,
            served(create_topics),
            version,
            topics=(
                wanted(version, "good", num_partitions=3),
                wanted(version, "manual", **manual),
                wanted(version, "twice"),
                wanted(version, "twice"),
                wanted(version, "a.b"),
                wanted(version, "a_b"),
                wanted(version, "no/slash"),
                wanted(version, "..", num_partitions=2),
                wanted(version, "none", num_partitions=0),
                wanted(version, "three", replication_factor=3),
                wanted(version, "zero", replication_factor=0),
                wanted(version, "both", assignments=(assigned,)),
                wanted(version, "bad-config", configs=(config,)),
                wanted(version, "__cluster_metadata"),
            ),
            timeout=MINUTE,
            validate_only=False,
        )
        outcome = dict(zip((topic.name for topic in answer.topics), codes(answer.topics),
                           strict=True))  # fmt: skip
        assert outcome == CREATED
        good = next(topic for topic in answer.topics if topic.name == "good")
        assert here.write("good", 2) == 0
        if version >= 5:
            assert (good.num_partitions, good.replication_factor) == (3, 1)
            assert {entry.name for entry in good.configs} >= {"retention.ms", "segment.bytes"}
            assert all(topic.configs is not None for topic in answer.topics)
        if version >= 7:
            assert good.topic_id.bytes == here.broker.image.topics["good"].topic_id

    tell(tmp_path, story)


def test_create_topics_has_the_defaults_in_every_version(tmp_path: Path) -> None:
    """KafkaJS asks for them in v3, and Kafka 4.3 gives them."""

    async def story(here: Room) -> None:
        for version in (2, 3, 4, 7):
            name = f"t{version}"
            topic = wanted(version, name, num_partitions=-1, replication_factor=-1)
            answer = await ask(
                here, served(create_topics), version, topics=(topic,), timeout=MINUTE,
                validate_only=False,
            )  # fmt: skip
            assert codes(answer.topics) == ["NONE"]
            assert len(here.broker.image.topics[name].partitions) == 4

    tell(tmp_path, story, num_partitions="4")


def test_more_partitions_than_allowed_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        topics = (wanted(7, "t", num_partitions=2**31 - 1), wanted(7, "u", num_partitions=11))
        answer = await ask(
            here, served(create_topics), 7, topics=topics, timeout=MINUTE, validate_only=False
        )
        assert codes(answer.topics) == ["POLICY_VIOLATION"] * 2
        assert here.broker.image.topics == {}

    tell(tmp_path, story, partitions_per_topic_max="1000", partitions_max="10")


@pytest.mark.parametrize("version", versions(served(delete_topics)))
def test_delete_topics_by_name_and_by_id(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        expected: dict[str | None, str]
        await here.controller.create_topics([NewTopic("t", 1), NewTopic("u", 1)])
        by_id = here.broker.image.topics["u"].topic_id
        if version < 6:
            fields: dict[str, Any] = {"topic_names": ("t", "nope")}
            expected = {"t": "NONE", "nope": "UNKNOWN_TOPIC_OR_PARTITION"}
        else:
            asked = [("t", UUID(int=0)), (None, UUID(bytes=by_id)), (None, UUID(int=5)),
                     ("nope", UUID(int=0)), ("both", UUID(int=6))]  # fmt: skip
            fields = {
                "topics": tuple(
                    nested(
                        served(delete_topics), version, "DeleteTopicState", name=name, topic_id=one
                    )
                    for name, one in asked
                )
            }
            expected = {
                "t": "NONE",
                "u": "NONE",
                None: "UNKNOWN_TOPIC_ID",
                "nope": "UNKNOWN_TOPIC_OR_PARTITION",
                "both": "INVALID_REQUEST",
            }
        answer = await ask(here, served(delete_topics), version, timeout=MINUTE, **fields)
        names = [one.name for one in answer.responses]
        assert dict(zip(names, codes(answer.responses), strict=True)) == expected
        assert set(here.broker.image.topics) == ({"u"} if version < 6 else set())

    tell(tmp_path, story)


@pytest.mark.parametrize("name_first", [True, False], ids=["name first", "id first"])
def test_topic_named_and_given_by_id_in_one_request_is_deleted_once(
    tmp_path: Path, name_first: bool
) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        asked = [("t", UUID(int=0)), (None, UUID(bytes=here.broker.image.topics["t"].topic_id))]
        api = served(delete_topics)
        topics = tuple(
            nested(api, 6, "DeleteTopicState", name=name, topic_id=topic_id)
            for name, topic_id in (asked if name_first else reversed(asked))
        )
        answer = await ask(here, api, 6, timeout=MINUTE, topics=topics)
        assert sorted(codes(answer.responses)) == ["INVALID_REQUEST", "NONE"]
        assert "t" not in here.broker.image.topics

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("version", "code"), [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")]
)
def test_deletion_can_be_turned_off(tmp_path: Path, version: int, code: str) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        answer = await ask(here, served(delete_topics), version, topic_names=("t",), timeout=MINUTE)
        assert codes(answer.responses) == [code]
        assert "t" in here.broker.image.topics

    tell(tmp_path, story, delete_topic_enable="false")


@pytest.mark.parametrize("version", versions(served(create_partitions)))
def test_create_partitions_grows_and_refuses(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1), NewTopic("u", 2)])

        def grow(name: str, count: int, *assigned: tuple[int, ...]) -> Any:
            assignments = tuple(
                nested(
                    served(create_partitions), version, "CreatePartitionsAssignment", broker_ids=one
                )
                for one in assigned
            )
            return nested(
                served(create_partitions), version, "CreatePartitionsTopic", name=name, count=count,
                assignments=assignments or None,
            )  # fmt: skip

        for topics, expected in (
            ((grow("t", 3), grow("nope", 3), grow("u", 2)),
             ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PARTITIONS"]),
            ((grow("t", 4, (0,)), grow("u", 4, (0,))), ["NONE", "INVALID_REPLICA_ASSIGNMENT"]),
            ((grow("t", 5, (9,)), grow("u", 3, (0, 0))), ["INVALID_REPLICA_ASSIGNMENT"] * 2),
            ((grow("t", 9), grow("t", 8)), ["INVALID_REQUEST"]),
        ):  # fmt: skip
            answer = await ask(
                here, served(create_partitions), version, topics=topics, timeout=MINUTE,
                validate_only=False,
            )  # fmt: skip
            assert codes(answer.results) == expected
        assert here.write("t", 3) == 0
        assert len(here.broker.image.topics["t"].partitions) == 4

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(describe_cluster)))
def test_describe_cluster_shows_the_asking_listeners_addresses(
    tmp_path: Path, version: int
) -> None:
    async def story(here: Room) -> None:
        fields: dict[str, Any] = {"include_fenced_brokers": False} if version >= 2 else {}
        kind: dict[str, Any] = {"endpoint_type": 1} if version >= 1 else {}
        answer = await ask(
            here, served(describe_cluster), version, include_cluster_authorized_operations=False,
            **fields, **kind,
        )  # fmt: skip
        assert (answer.cluster_id, answer.controller_id) == (here.broker.cluster_id, 0)
        assert [(one.host, one.port) for one in answer.brokers] == [("127.0.0.1", 9092)]
        if version >= 1:
            answer = await ask(
                here, served(describe_cluster), version, endpoint_type=2,
                include_cluster_authorized_operations=False, **fields,
            )  # fmt: skip
            assert answer.error_code.name == "mismatched_endpoint_type"
            assert answer.brokers == ()

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(init_producer_id)))
def test_every_producer_is_given_an_id_of_its_own_at_epoch_0(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        async def init(**fields: Any) -> tuple[int, int, str]:
            given = {"transactional_id": None, "transaction_timeout": MINUTE, **fields}
            answer = await ask(here, served(init_producer_id), version, **given)
            code = ErrorCode(int(answer.error_code)).name
            return answer.producer_id, answer.producer_epoch, code

        assert [await init() for _ in range(3)] == [(one, 0, "NONE") for one in range(3)]
        assert await init(transactional_id="") == (-1, -1, "INVALID_REQUEST")
        if version >= 3:
            assert await init(producer_id=1, producer_epoch=4) == (3, 0, "NONE")
            assert await init(producer_id=1, producer_epoch=-1) == (-1, -1, "INVALID_REQUEST")

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(delete_records)))
def test_deleted_records_do_not_come_back_after_a_kill(tmp_path: Path, version: int) -> None:
    disk = SimDisk()

    async def begin() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 1)])
            for _ in range(5):
                here.write("t")
            disk.settle()
            while here.broker.partition("t", 0).high_watermark < 5:
                here.broker.clock.turn()  # type: ignore[attr-defined]
                disk.settle()
            parts = tuple(
                nested(served(delete_records), version, "DeleteRecordsPartition",
                       partition_index=index, offset=offset)
                for index, offset in ((0, 3), (1, 0))
            )  # fmt: skip
            topic = nested(served(delete_records), version, "DeleteRecordsTopic", name="t",
                           partitions=parts)  # fmt: skip
            answer = await ask(
                here, served(delete_records), version, topics=(topic,), timeout=MINUTE
            )
            found = answer.topics[0].partitions
            assert codes(found) == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
            assert [one.low_watermark for one in found] == [3, -1]

    async def go_on() -> None:
        async with room(tmp_path, disk) as here:
            assert here.broker.partition("t", 0).log_start_offset == 3

    play(begin())
    play(go_on())


@pytest.mark.parametrize("version", versions(served(describe_log_dirs)))
def test_describe_log_dirs_shows_sizes_and_names_failed_directories(
    tmp_path: Path, version: int
) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            await here.controller.create_topics([NewTopic("t", 2)])
            here.write("t", 0)
            answer = await ask(here, served(describe_log_dirs), version, topics=None)
            if version >= 4:
                assert {(one.total_bytes, one.usable_bytes) for one in answer.results} == {
                    (disk.total_bytes("/one"), disk.free_bytes("/one"))
                }
            sizes = {
                (topic.name, one.partition_index): one.partition_size
                for result in answer.results
                for topic in result.topics
                for one in topic.partitions
            }
            assert set(sizes) == {("t", 0), ("t", 1)}
            assert sizes["t", 0] > sizes["t", 1] == 0
            disk.fail_writes()
            with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            disk.heal()
            answer = await ask(here, served(describe_log_dirs), version, topics=None)
            assert sorted(codes(answer.results)) == ["KAFKA_STORAGE_ERROR", "NONE"]

    play(story())
