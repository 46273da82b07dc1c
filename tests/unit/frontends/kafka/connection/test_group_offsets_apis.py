"""A group's offsets on the wire: every version of commit, fetch and delete."""

from typing import Any
from uuid import UUID

import pytest

from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.frontends.kafka.connection.handler import load_handler
from headrace.frontends.kafka.groups import (
    offset_commit,
    offset_delete,
    offset_fetch,
)
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.hot import offset_commit as commit_codec
from tests.support.coordination.groups_wire import NO_ID, TOPIC_ID, Wire, versions
from tests.support.net.served import served


def commit(wire: Wire, version: int, group: str = "g", generation: int = -1) -> list[list[int]]:
    """Commit known and unknown partitions and too long a note; the codes by topic."""
    part = commit_codec.PartitionRequest
    known = [part(0, 5, 3, "note"), part(1, 6, 3, "x" * 5000), part(2, 7, 3, None)]
    unknown_id = b"\xff" * 16
    by_id = version >= commit_codec.TOPIC_IDS_FROM
    topics = [
        commit_codec.TopicRequest("" if by_id else "t", TOPIC_ID, known),
        commit_codec.TopicRequest("" if by_id else "u", unknown_id, [part(0, 5, -1, None)]),
    ]
    request = commit_codec.OffsetCommitRequest(group, generation, "", topics)
    body = memoryview(commit_codec.encode_request(version, request))
    answer = offset_commit.handle(wire.context(served(offset_commit), version), body)
    assert isinstance(answer, Pending)
    wire.room.clock.advance()
    assert isinstance(answer.body, bytes)
    response = commit_codec.decode_response(version, memoryview(answer.body))
    return [[one.error_code for one in topic.partitions] for topic in response.topics]


@pytest.mark.parametrize("version", versions(served(offset_commit)))
def test_offset_commit_in_every_version(version: int) -> None:
    wire = Wire()
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, version) == [[ErrorCode.NONE, too_large, missing], [unknown]]
    assert wire.room.committed("t", 0) == 5
    wire.room.stable()
    refused = ErrorCode.ILLEGAL_GENERATION if version < 9 else ErrorCode.GROUP_ID_NOT_FOUND
    codes = commit(wire, version, group="never", generation=3)
    assert codes == [[refused, refused, missing], [unknown]]


def test_a_commit_to_unknown_topics_alone_does_not_bother_the_coordinator() -> None:
    wire = Wire()
    request = commit_codec.OffsetCommitRequest(
        "g",
        4,
        "m",
        [commit_codec.TopicRequest("u", NO_ID.bytes, [commit_codec.PartitionRequest(0, 1)])],
    )
    body = memoryview(commit_codec.encode_request(8, request))
    answer = offset_commit.handle(wire.context(served(offset_commit), 8), body)
    assert isinstance(answer, bytes)
    (one,) = commit_codec.decode_response(8, memoryview(answer)).topics
    assert one.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def fetch(
    wire: Wire, version: int, topics: Any, *, group: str = "g", stable: bool = False
) -> tuple[int, dict[Any, list[tuple[int, int, int]]]]:
    """OffsetFetch of one group: its error, and (partition, offset, error) by topic."""
    api = served(offset_fetch)
    if topics is not None:
        plural = "s" if version >= 8 else ""
        topics = tuple(
            wire.nested(
                api, version, f"OffsetFetchRequestTopic{plural}",
                name=name, topic_id=UUID(bytes=topic_id), partition_indexes=(0, 1),
            )
            for name, topic_id in topics
        )  # fmt: skip
    if version < 8:
        answer = wire.ask(api, version, group_id=group, topics=topics, require_stable=stable)
        error, found = getattr(answer, "error_code", 0), answer.topics
    else:
        asked = wire.nested(
            api, version, "OffsetFetchRequestGroup",
            group_id=group, member_id=None, member_epoch=-1, topics=topics,
        )  # fmt: skip
        answer = wire.ask(api, version, groups=(asked,), require_stable=stable)
        (only,) = answer.groups
        error, found = only.error_code, only.topics
    return int(error), {
        (one.topic_id.bytes if version >= 10 else one.name): [
            (p.partition_index, p.committed_offset, int(p.error_code)) for p in one.partitions
        ]
        for one in found
    }


@pytest.mark.parametrize("version", versions(served(offset_fetch)))
def test_offset_fetch_in_every_version(version: int) -> None:
    wire = Wire()
    commit(wire, 8)
    key = TOPIC_ID if version >= 10 else "t"
    error, found = fetch(wire, version, [("t", TOPIC_ID)])
    assert (error, found[key]) == (0, [(0, 5, 0), (1, -1, 0)])
    assert fetch(wire, version, [("t", TOPIC_ID)], group="none")[1][key] == [(0, -1, 0), (1, -1, 0)]
    if version >= 2:
        assert fetch(wire, version, None) == (0, {key: [(0, 5, 0)]})
    if version >= 7:
        assert fetch(wire, version, None, stable=True) == (0, {key: [(0, 5, 0)]})
    if version >= 10:
        unknown = int(ErrorCode.UNKNOWN_TOPIC_ID)
        _, found = fetch(wire, version, [("", NO_ID.bytes)])
        assert found[NO_ID.bytes] == [(0, -1, unknown), (1, -1, unknown)]
    wire.room.groups.led.resign(0)
    error, found = fetch(wire, version, [("t", TOPIC_ID)])
    gone = int(ErrorCode.NOT_COORDINATOR)
    if version >= 2:
        assert (error, found) == (gone, {})
    else:
        assert found["t"] == [(0, -1, gone), (1, -1, gone)]


def test_a_stable_fetch_waits_for_what_is_being_committed() -> None:
    wire = Wire()
    wire.room.partition.hold = True
    wire.room.commit()
    api, version = served(offset_fetch), 9
    asked = wire.nested(
        api, version, "OffsetFetchRequestGroup",
        group_id="g", member_id=None, member_epoch=-1, topics=None,
    )  # fmt: skip
    request = kio_codec.request_type(api.key, version)(groups=(asked,), require_stable=True)
    answer: Any = load_handler(api)(wire.context(api, version), request)
    assert not answer.done
    wire.room.partition.flush()
    response = wire.received(api, version, answer)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 7


def test_offset_delete_answers_for_each_partition_and_for_the_group() -> None:
    wire = Wire()
    commit(wire, 8)
    api = served(offset_delete)

    def delete(group: str) -> Any:
        partitions = tuple(
            wire.nested(api, 0, "OffsetDeleteRequestPartition", partition_index=index)
            for index in (0, 9)
        )
        topics = tuple(
            wire.nested(api, 0, "OffsetDeleteRequestTopic", name=name, partitions=partitions)
            for name in ("t", "u")
        )
        return wire.ask(api, 0, group_id=group, topics=topics)

    answer = delete("g")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = [[one.error_code for one in topic.partitions] for topic in answer.topics]
    assert codes == [[ErrorCode.NONE, unknown], [unknown, unknown]]
    assert wire.room.committed("t", 0) is None
    assert delete("none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete("").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [one for one in versions(served(offset_fetch)) if one >= 7])
def test_an_offset_that_an_open_transaction_may_change_is_unstable_to_who_wants_a_stable_one(
    version: int,
) -> None:
    wire = Wire()
    wire.room.commit()
    pending = CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 11)])
    told: list[ErrorCode] = []
    wire.room.groups.commit_in_transaction(pending, 7, 0, told.append)
    wire.room.clock.advance()
    topics = [("t", TOPIC_ID)]
    unstable, none = int(ErrorCode.UNSTABLE_OFFSET_COMMIT), int(ErrorCode.NONE)
    _, found = fetch(wire, version, topics, stable=True)
    assert list(found.values()) == [[(0, -1, unstable), (1, -1, none)]]
    _, found = fetch(wire, version, topics)
    assert list(found.values()) == [[(0, 7, none), (1, -1, none)]]
    shard = wire.room.groups.led.at(0)
    assert shard is not None
    shard.end_transaction(7, committed=True)
    _, found = fetch(wire, version, topics, stable=True)
    assert list(found.values()) == [[(0, 11, none), (1, -1, none)]]
