"""The APIs of the newer group protocol on the wire, in every version, and groups' own settings."""

import asyncio
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.frontends.kafka.connection import api_versions
from headrace.frontends.kafka.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_groups,
    offset_fetch,
)
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.shards.shard import World
from tests.support.admin import tell, versions
from tests.support.coordination.groups_wire import TOPIC_ID, Wire
from tests.support.net.served import served
from tests.support.processes.broker import Room

if TYPE_CHECKING:
    from headrace.coordination.groups.consumer.model import OwnedPartitions
    from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer

HEARTBEAT = served(consumer_group_heartbeat)


class Newer(Wire):
    """The coordinator sees the same topics as the frontends."""

    def __init__(self) -> None:
        super().__init__()
        self.room.image = self.broker.image

    def beat(self, version: int, **said: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": timedelta(seconds=30),
            "subscribed_topic_names": ("t",),
            "subscribed_topic_regex": None,
            "topic_partitions": (),
        }
        return self.ask(HEARTBEAT, version, **fields | said)


@pytest.mark.parametrize("version", versions(HEARTBEAT))
def test_a_member_joins_stays_and_leaves_in_every_version(version: int) -> None:
    wire = Newer()
    joined = wire.beat(version, member_id="m" if version else "")
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
    assert joined.heartbeat_interval == timedelta(seconds=5)
    (given,) = joined.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (uuid.UUID(bytes=TOPIC_ID), (0, 1))
    topics = (
        wire.nested(
            HEARTBEAT, version, "TopicPartitions", topic_id=given.topic_id, partitions=(0, 1)
        ),
    )
    silent = {
        "member_id": joined.member_id,
        "member_epoch": 2,
        "rebalance_timeout": timedelta(milliseconds=-1),
        "subscribed_topic_names": None,
        "topic_partitions": topics,
    }
    stays = wire.beat(version, **silent)
    assert (stays.error_code, stays.assignment) == (ErrorCode.NONE, None)
    fenced = wire.beat(version, **silent | {"member_epoch": 7})
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "rejoin" in fenced.error_message
    left = wire.beat(version, **silent | {"member_epoch": -1})
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)


def test_from_version_1_on_members_bring_their_ids() -> None:
    assert Newer().beat(1, member_id="").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions(served(consumer_group_describe)))
def test_describe_in_every_version(version: int) -> None:
    wire = Newer()
    wire.beat(1)
    answer = wire.ask(
        served(consumer_group_describe),
        version,
        group_ids=("g", "nope"),
        include_authorized_operations=True,
    )
    found, missing = answer.groups
    assert (found.error_code, found.group_state) == (ErrorCode.NONE, "Stable")
    assert (found.group_epoch, found.assignment_epoch, found.assignor_name) == (2, 2, "uniform")
    assert found.authorized_operations > 0
    (member,) = found.members
    assert (member.member_id, member.subscribed_topic_names) == ("m", ("t",))
    assert member.assignment == member.target_assignment
    assert member.assignment.topic_partitions[0].topic_name == "t"
    if version >= 1:
        assert member.member_type == 1
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (missing.group_state, missing.assignor_name, missing.members) == ("", "", ())
    assert (missing.group_epoch, missing.assignment_epoch) == (0, 0), "as Kafka's defaults say"


@pytest.mark.parametrize("version", versions(served(describe_groups)))
def test_describe_groups_does_not_know_groups_of_the_newer_kind(version: int) -> None:
    wire = Newer()
    wire.beat(1)
    answer = wire.ask(
        served(describe_groups), version, groups=("g",), include_authorized_operations=False
    )
    (group,) = answer.groups
    assert group.group_state == "Dead"
    since = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert group.error_code == since


@pytest.mark.parametrize("version", [9, 10])
def test_offsets_are_fetched_at_the_members_epoch(version: int) -> None:
    wire = Newer()
    wire.beat(1)
    api = served(offset_fetch)

    def group(member: str | None, epoch: int) -> Any:
        return wire.nested(
            api, version, "OffsetFetchRequestGroup",
            group_id="g", member_id=member, member_epoch=epoch, topics=None,
        )  # fmt: skip

    asked = (group("m", 2), group("m", 1), group("who", 2), group(None, -1))
    answer = wire.ask(api, version, groups=asked, require_stable=False)
    assert [one.error_code for one in answer.groups] == [
        ErrorCode.NONE,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]


def test_the_feature_is_finalized_so_that_clients_use_it() -> None:
    assert api_versions.FEATURES["group.version"] == 1


def test_a_groups_own_settings_are_what_its_members_are_told(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
        await here.controller.create_topics([NewTopic("t", 1)])
        groups = GroupCoordinators.of(
            here.broker, World(here.broker.clock, here.broker.random, here.broker.disk)
        )
        groups.led.lead(0, here.broker.partition(OFFSETS_TOPIC, 0), 0)

        async def interval_ms(group_id: str) -> int:
            answers: list[HeartbeatAnswer[OwnedPartitions]] = []
            request = HeartbeatRequest(
                group_id, "m", 0, rebalance_timeout_ms=1000, topics=frozenset({"t"}), owned={}
            )
            groups.consumer_heartbeat(request, answers.append)
            for _ in range(1000):
                if answers:
                    break
                await asyncio.sleep(0)
            return answers[0].interval_ms

        change = {"consumer.heartbeat.interval.ms": "7000"}
        await here.controller.settings.groups.alter("own", change)
        assert await interval_ms("own") == 7000
        assert await interval_ms("other") == 5000
        groups.close()

    tell(tmp_path, story, offsets_topic_num_partitions="1")
