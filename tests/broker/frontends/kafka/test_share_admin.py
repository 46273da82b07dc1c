"""Share groups' members and their administration over a socket (KIP-932)."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.client.admin.topics import create_partitions, create_topic, delete_topic
from headrace.client.calls.call import ColdCall
from headrace.client.sync import connect, run
from headrace.coordination.groups.modern.changes import GroupEpoch
from headrace.coordination.groups.share import records
from headrace.coordination.groups.share.group import ShareGroup
from headrace.model.errors import ErrorCode
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from tests.support.coordination.share import ACCEPT, ShareMember, SharePlace, ack_error


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    settings = {
        "share.coordinator.state.topic.num.partitions": "2",
        "group.share.assignment.interval.ms": "0",
    }
    with BrokerThread(settings) as one:
        yield one


def ask(place: SharePlace, key: ApiKey, build: Callable[[Any], Any]) -> Any:
    """One request of the newest version, and its answer."""
    with connect(place.bootstrap) as client:
        return run(client.ask_any(ColdCall(key, build, lambda response: response)))


def describe(place: SharePlace) -> Any:
    """The group as ShareGroupDescribe has it."""
    (group,) = ask(
        place,
        ApiKey.SHARE_GROUP_DESCRIBE,
        lambda make: make.request(group_ids=(place.group,), include_authorized_operations=False),
    ).groups
    return group


def offsets(place: SharePlace, partitions: tuple[int, ...] | None = None) -> dict[int, Any]:
    """What the group keeps of its topic, by partition; None: whatever it keeps."""

    def build(make: Any) -> Any:
        topic = make.part(
            "DescribeShareGroupOffsetsRequestTopic", topic_name=place.topic, partitions=partitions
        )
        group = make.part(
            "DescribeShareGroupOffsetsRequestGroup",
            group_id=place.group,
            topics=None if partitions is None else (topic,),
        )
        return make.request(groups=(group,))

    (group,) = ask(place, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, build).groups
    assert group.error_code == ErrorCode.NONE, group.error_message
    return {one.partition_index: one for topic in group.topics for one in topic.partitions}


def alter(place: SharePlace, **begins: int) -> Any:
    """AlterShareGroupOffsets: p0=3 and the like."""

    def build(make: Any) -> Any:
        parts = tuple(
            make.part(
                "AlterShareGroupOffsetsRequestPartition",
                partition_index=int(name[1:]),
                start_offset=start,
            )
            for name, start in begins.items()
        )
        topic = make.part(
            "AlterShareGroupOffsetsRequestTopic", topic_name=place.topic, partitions=parts
        )
        return make.request(group_id=place.group, topics=(topic,))

    return ask(place, ApiKey.ALTER_SHARE_GROUP_OFFSETS, build)


def delete_offsets(place: SharePlace, *topics: str) -> Any:
    def build(make: Any) -> Any:
        names = tuple(
            make.part("DeleteShareGroupOffsetsRequestTopic", topic_name=name) for name in topics
        )
        return make.request(group_id=place.group, topics=names)

    return ask(place, ApiKey.DELETE_SHARE_GROUP_OFFSETS, build)


def delete_group(place: SharePlace) -> int:
    answer = ask(
        place, ApiKey.DELETE_GROUPS, lambda make: make.request(groups_names=(place.group,))
    )
    return int(answer.results[0].error_code)


def test_members_join_stay_and_leave(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, partitions=2)
    with place.member("first") as one, place.member("second") as other:
        assert len(one.assigned) == 2, "what it was told when it was alone"
        one.stay()
        assert sorted(one.assigned + other.assigned) == sorted(set(one.assigned + other.assigned))
        assert len(one.assigned) == len(other.assigned) == 1
        assert one.heartbeat(one.epoch + 5).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert other.leave().member_epoch == -1
        one.stay()
        assert len(one.assigned) == 2
        assert other.heartbeat(other.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert one.leave().error_code == ErrorCode.NONE
    with ShareMember(place.bootstrap, f"no-{place.group}", "m") as stranger:
        assert stranger.heartbeat(4).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert stranger.heartbeat(0).error_code == ErrorCode.INVALID_REQUEST, "no topics"
    with ShareMember(place.bootstrap, place.group, "") as nobody:
        assert nobody.heartbeat(0, ["t"]).error_code == ErrorCode.INVALID_REQUEST


def test_more_members_than_partitions_share_them(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, partitions=2)
    members = [place.member(f"m{number}") for number in range(5)]
    for one in members:
        one.stay()
    readers = [one.assigned for one in members]
    assert all(len(parts) == 1 for parts in readers)
    counts = sorted(readers.count([part]) for part in {parts[0] for parts in readers})
    assert counts == [2, 3]
    for one in members:
        one.client.close()


def test_new_partitions_and_new_topics_come_to_members(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    later = f"{place.topic}-later"
    with place.member() as one:
        one.take(one.heartbeat(one.epoch, [place.topic, later]))
        assert len(one.assigned) == 1
        with connect(place.bootstrap) as client:
            run(create_partitions(client, place.topic, 3))
            run(create_topic(client, later, partitions=2))
        one.stay_until_assigned(5)
        with connect(place.bootstrap) as client:
            run(delete_topic(client, later))
        one.stay()
        assert len(one.assigned) == 3
        assert set(offsets(place)) == {0, 1, 2}


def test_groups_are_described_listed_and_deleted(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(2)
    with place.member("me") as one:
        assert one.fetch().offsets() == [0, 1]
        assert ack_error(one.acknowledge((0, 1, ACCEPT))) == 0
        group = describe(place)
        assert (group.group_state, group.assignor_name) == ("Stable", "simple")
        (member,) = group.members
        assert (member.member_id, member.member_epoch) == ("me", one.epoch)
        assert member.subscribed_topic_names == (place.topic,)
        assert [part.topic_name for part in member.assignment.topic_partitions] == [place.topic]
        listed = ask(
            place,
            ApiKey.LIST_GROUPS,
            lambda make: make.request(states_filter=(), types_filter=("share",)),
        )
        mine = {one.group_id: one for one in listed.groups}[place.group]
        assert (mine.group_state, mine.group_type, mine.protocol_type) == (
            "Stable", "share", "share",
        )  # fmt: skip
        assert delete_group(place) == ErrorCode.NON_EMPTY_GROUP
        one.leave()
        assert describe(place).group_state == "Empty"
        assert delete_group(place) == ErrorCode.NONE
        assert describe(place).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert delete_group(place) == ErrorCode.GROUP_ID_NOT_FOUND
    with place.member() as again:
        assert again.fetch().offsets() == [0, 1], "the state went with the group"


def test_a_group_may_begin_by_being_told_where_to_on_a_new_broker() -> None:
    with BrokerThread({"share.coordinator.state.topic.num.partitions": "2"}) as fresh:
        place = SharePlace(fresh.bootstrap)
        place.produce(5)
        assert alter(place, p0=3).error_code == ErrorCode.NONE
        assert offsets(place)[0].start_offset == 3
        with place.member() as one:
            assert one.fetch().offsets() == [3, 4]


def test_a_groups_epochs_begin_at_1(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    assert alter(place, p0=0).error_code == ErrorCode.NONE
    group = describe(place)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Empty", 1, 1)
    with place.member() as one:
        group = describe(place)
        assert (group.group_epoch, group.assignment_epoch, one.epoch) == (2, 2, 2)


def test_a_group_kept_with_the_epoch_0_of_former_versions_is_at_1() -> None:
    group = ShareGroup("g")
    group_id, change = records.decode(*records.encode("g", GroupEpoch(0)))
    assert group_id == "g"
    group.apply(change)
    assert (group.epoch, group.target_epoch) == (1, 1)


def test_offsets_are_described_altered_and_deleted(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, partitions=2)
    place.produce(10, batch=2)
    with place.member() as one:
        assert one.fetch(records_max=10).offsets() == list(range(10))
        part = one.assigned[0]
        assert ack_error(one.acknowledge((0, 3, ACCEPT), (6, 7, ACCEPT), partition=part)) == 0
        seen = offsets(place)
        assert (seen[0].start_offset, seen[0].lag) == (4, 4)
        assert alter(place, p0=1).error_code == ErrorCode.NON_EMPTY_GROUP
        assert delete_offsets(place, place.topic).error_code == ErrorCode.NON_EMPTY_GROUP
        one.leave()
    answer = alter(place, p0=7, p5=0)
    assert answer.error_code == ErrorCode.NONE
    codes = {part.partition_index: part.error_code for part in answer.responses[0].partitions}
    assert codes == {0: ErrorCode.NONE, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert offsets(place, (0, 5))[0].start_offset == 7
    assert offsets(place, (0, 5))[5].start_offset == -1
    with place.member() as one:
        assert one.fetch().offsets() == [7, 8, 9], "the batch that holds 7, from 7 on"
        one.leave()
    (topic,) = delete_offsets(place, place.topic).responses
    assert topic.error_code == ErrorCode.NONE
    assert offsets(place) == {}
    (topic,) = delete_offsets(place, place.topic).responses
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with place.member() as one:
        assert one.fetch().offsets() == list(range(10))


def test_groups_of_other_kinds_keep_their_names(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    with place.member():
        answer = ask(
            place,
            ApiKey.FIND_COORDINATOR,
            lambda make: make.request(
                key_type=2, coordinator_keys=(f"{place.group}:{uuid.uuid4()}:0", "nonsense")
            ),
        )
        assert [one.error_code for one in answer.coordinators] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
        ]
