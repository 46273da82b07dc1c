"""What ListOffsets tells of ends that a new leader does not know, and to its followers."""

from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION, DESCRIBE_TOPIC
from headrace.frontends.kafka.fetch import list_offsets
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets as wire
from tests.support.cluster.followed import (
    EPOCH,
    TOPIC,
    A,
    Asking,
    dispatcher,
    is_flushed,
    lead,
    led,
    tell,
)
from tests.support.processes.broker import Room, append, until
from tests.support.security.authorisation import Rules

FAR = 1_990_000_000_000
"""A time after all records'."""


async def told(
    here: Room, timestamp: int, *, version: int = 7, replica_id: int = -1
) -> tuple[ErrorCode, int]:
    """The code and the offset for partition 0."""
    asked = wire.TopicRequest(TOPIC, [wire.PartitionRequest(0, timestamp, -1)])
    request = wire.ListOffsetsRequest(replica_id, 0, [asked])
    body = memoryview(bytearray(wire.encode_request(version, request)))
    context = here.context(ApiKey.LIST_OFFSETS, version)
    context.shared = dispatcher(here).shared
    answer: Any = list_offsets.handle(context, body)
    if isinstance(answer, Pending):
        pending = answer
        await until(lambda: pending.done)
        answer = pending.parts()
    (topic,) = wire.decode_response(version, memoryview(answer)).topics
    (found,) = topic.partitions
    return ErrorCode(found.error_code), found.offset


@pytest.mark.parametrize(
    ("version", "code"), [(7, "OFFSET_NOT_AVAILABLE"), (4, "LEADER_NOT_AVAILABLE")]
)
def test_a_new_leader_tells_no_end_before_the_high_watermark_has_reached_its_term(
    tmp_path: Path, version: int, code: str
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        for _ in range(3):
            append(partition)
        await until(is_flushed(partition))
        lead(here, A, epoch=EPOCH + 1)
        unknown = ErrorCode[code]
        assert (await told(here, wire.LATEST, version=version))[0] is unknown
        assert (await told(here, FAR, version=version))[0] is unknown
        assert await told(here, wire.EARLIEST, version=version) == (ErrorCode.NONE, 0)
        asking = Asking(here)
        asking.leader_epoch = EPOCH + 1
        await asking.told(asking.ask({0: (2, EPOCH)}, wait_ms=0))
        assert (await told(here, wire.LATEST, version=version))[0] is unknown
        await asking.told(asking.ask({0: (3, EPOCH)}, wait_ms=0))
        assert await told(here, wire.LATEST, version=version) == (ErrorCode.NONE, 3)
        assert await told(here, FAR, version=version) == (ErrorCode.NONE, -1)

    tell(tmp_path, story)


def test_a_follower_is_told_where_the_leaders_log_ends(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        lead(here, A, epoch=EPOCH + 1)
        assert await told(here, wire.LATEST, replica_id=A) == (ErrorCode.NONE, 1)
        assert (await told(here, wire.LATEST, replica_id=99))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
        assert await told(here, wire.EARLIEST, replica_id=A) == (ErrorCode.NONE, 0)
        partition.role.resign()
        assert (await told(here, wire.LATEST, replica_id=A))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)


def test_a_follower_needs_no_permission_for_topics_beside_the_one_to_act_for_the_cluster(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        here.broker.authorizer = Rules(DESCRIBE_TOPIC)
        assert await told(here, wire.LATEST, replica_id=A) == (ErrorCode.NONE, 1)
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (await told(here, wire.LATEST))[0] is refused
        here.broker.authorizer = Rules(DESCRIBE_TOPIC, CLUSTER_ACTION)
        assert (await told(here, wire.LATEST, replica_id=A))[0] is refused

    tell(tmp_path, story)


def test_a_debugging_client_gets_the_log_s_end_if_it_may_describe_the_topic(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        lead(here, A, epoch=EPOCH + 1)
        debugging = list_offsets.DEBUGGING
        assert (await told(here, wire.LATEST))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
        assert await told(here, wire.LATEST, replica_id=debugging) == (ErrorCode.NONE, 1)
        here.broker.authorizer = Rules(DESCRIBE_TOPIC)
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (await told(here, wire.LATEST, replica_id=debugging))[0] is refused

    tell(tmp_path, story)
