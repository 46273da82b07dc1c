"""Consumer groups from outside: list and describe groups, read and commit offsets, delete.

`consumer.member` is the client's own group member.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, HotCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.client.consumer.subscription import decode_assignment
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import TopicPartition, by_topic
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import offset_commit as commit_codec
from headrace.wire.kafka.primitives import NO_UUID

_DEAD = "Dead"


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it (ListGroups)."""

    group: str
    state: str
    protocol_type: str
    type: str
    """The group's protocol: `classic`, `consumer` or `share`; empty from brokers before Kafka
    3.8."""


class GroupMember(NamedTuple):
    """A group member with the partitions assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Sequence[TopicPartition]


class DescribedGroup(NamedTuple):
    """A group with its state and members; state `Dead` if the group does not exist."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[GroupMember]


class Committed(NamedTuple):
    """A group's committed offset in one partition: that of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


async def list_groups(client: Client) -> list[ListedGroup]:
    """Return the groups of all brokers, sorted by group id."""

    def parse(response: Any) -> list[ListedGroup]:  # noqa: ANN401
        check(response.error_code)
        return [
            ListedGroup(
                str(group.group_id),
                getattr(group, "group_state", ""),
                group.protocol_type,
                getattr(group, "group_type", ""),
            )
            for group in response.groups
        ]

    call = ColdCall(ApiKey.LIST_GROUPS, lambda maker: maker.request(), parse)

    async def attempt() -> list[ListedGroup]:
        known = await client.metadata([])
        found: dict[str, ListedGroup] = {}
        for broker in known.brokers:
            for described in await client.ask(await client.broker(broker), call):
                found[described.group] = described
        return [found[group] for group in sorted(found)]

    return await client.retrying(attempt)


async def describe_group(client: Client, group: str) -> DescribedGroup:
    """Return a group's state and members, of the classic or of the consumer protocol (KIP-848)."""
    classic = await _describe_classic(client, group)
    if classic.state != _DEAD:
        return classic
    try:
        return await _describe_consumer(client, group) or classic
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:  # a broker before 4.0
            return classic
        raise


async def _describe_consumer(client: Client, group: str) -> DescribedGroup | None:
    """Describe a group of the consumer protocol (KIP-848); None if it does not exist."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(group_ids=(group,), include_authorized_operations=False)

    def parse(response: Any) -> DescribedGroup | None:  # noqa: ANN401
        found = response.groups[0]
        if error_code(found.error_code) is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        check(found.error_code, found.error_message)
        return described("consumer", group, found)

    call = ColdCall(ApiKey.CONSUMER_GROUP_DESCRIBE, build, parse)
    return await client.ask_coordinator(group, call)


def described(kind: str, group: str, found: Any) -> DescribedGroup:  # noqa: ANN401 - kio's entity
    """Convert one group of a ConsumerGroupDescribe or ShareGroupDescribe response, `kind` its
    type."""
    members = [
        GroupMember(
            member.member_id,
            getattr(member, "instance_id", None),  # Share groups have no instance ids.
            member.client_id,
            member.client_host,
            [
                TopicPartition(str(topic.topic_name), int(number))
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ],
        )
        for member in found.members
    ]
    return DescribedGroup(group, found.group_state, kind, found.assignor_name, sorted(members))


async def _describe_classic(client: Client, group: str) -> DescribedGroup:
    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(groups=(group,), include_authorized_operations=False)

    def parse(response: Any) -> DescribedGroup:  # noqa: ANN401
        found = response.groups[0]
        if error_code(found.error_code) is ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group, _DEAD, "", "", ())
        check(found.error_code, getattr(found, "error_message", None))
        members = [
            GroupMember(
                member.member_id,
                getattr(member, "group_instance_id", None),
                member.client_id,
                member.client_host,
                _assignment(found.protocol_type, member.member_assignment),
            )
            for member in found.members
        ]
        return DescribedGroup(
            group, found.group_state, found.protocol_type, found.protocol_data, sorted(members)
        )

    return await client.ask_coordinator(group, ColdCall(ApiKey.DESCRIBE_GROUPS, build, parse))


def _assignment(protocol_type: str, data: bytes) -> Sequence[TopicPartition]:
    """Decode a member's assigned partitions; empty if it is not in the consumer protocol's
    format."""
    if protocol_type != "consumer" or not data:
        return ()
    try:
        return decode_assignment(data)
    except Malformed:
        return ()


async def committed(
    client: Client,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """Return a group's committed offsets of `partitions` (None: all that it has committed).

    Partitions without a committed offset are left out. `require_stable`: retry while a transaction
    has pending offsets (UNSTABLE_OFFSET_COMMIT).
    """
    numbers_of = None if partitions is None else by_topic(partitions)

    def build(maker: Maker) -> Any:  # noqa: ANN401
        topics = numbers_of and tuple(
            maker.part("OffsetFetchRequestTopics", name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in numbers_of.items()
        )
        wanted = maker.part("OffsetFetchRequestGroup", group_id=group, topics=topics)
        return maker.request(groups=(wanted,), require_stable=require_stable)

    if numbers_of is not None and not numbers_of:
        return {}
    call = ColdCall(ApiKey.OFFSET_FETCH, build, _read_committed, versions=(8, 9))
    return await client.ask_coordinator(group, call)


def _read_committed(response: Any) -> dict[TopicPartition, Committed]:  # noqa: ANN401
    found = {}
    check(response.groups[0].error_code)
    for topic in response.groups[0].topics:
        for committed_partition in topic.partitions:
            check(committed_partition.error_code)
            if committed_partition.committed_offset >= 0:
                partition = TopicPartition(
                    str(topic.name), int(committed_partition.partition_index)
                )
                found[partition] = Committed(
                    int(committed_partition.committed_offset),
                    int(committed_partition.committed_leader_epoch),
                    committed_partition.metadata,
                )
    return found


async def commit(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
) -> None:
    """Commit offsets for a group; without `member_id` only while the group has no members.

    ApiError of the first partition that the coordinator refuses.
    """
    topics: dict[str, list[commit_codec.PartitionRequest]] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, []).append(
            commit_codec.PartitionRequest(
                partition, committed.offset, committed.leader_epoch, committed.metadata or ""
            )
        )
    request = commit_codec.OffsetCommitRequest(
        group,
        generation,
        member_id,
        [commit_codec.TopicRequest(topic, NO_UUID, topics[topic]) for topic in topics],
        instance_id,
    )
    call = HotCall(
        ApiKey.OFFSET_COMMIT,
        commit_codec.encode_request,
        commit_codec.decode_response,
        request,
        versions=(2, 9),
    )

    async def attempt() -> None:
        response = await client.ask(await client.coordinator(0, group), call)
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"offset of {topic.name}-{partition.partition}")

    if topics:
        await client.retrying(attempt)


async def delete_group(client: Client, group: str) -> None:
    """Delete a group without members, with its committed offsets."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(groups_names=(group,))

    def parse(response: Any) -> None:  # noqa: ANN401
        for result in response.results:
            check(result.error_code, f"group {group}")

    await client.ask_coordinator(group, ColdCall(ApiKey.DELETE_GROUPS, build, parse))


async def delete_offsets(client: Client, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete a group's committed offsets of partitions that no member is subscribed to."""
    deleted = by_topic(partitions)

    def build(maker: Maker) -> Any:  # noqa: ANN401
        topics = tuple(
            maker.part(
                "OffsetDeleteRequestTopic",
                name=topic,
                partitions=tuple(
                    maker.part("OffsetDeleteRequestPartition", partition_index=number)
                    for number in numbers
                ),
            )
            for topic, numbers in deleted.items()
        )
        return maker.request(group_id=group, topics=topics)

    def parse(response: Any) -> None:  # noqa: ANN401
        check(response.error_code, f"group {group}")
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"{topic.name}-{partition.partition_index}")

    await client.ask_coordinator(group, ColdCall(ApiKey.OFFSET_DELETE, build, parse))


def exists(group: DescribedGroup, offsets: Mapping[TopicPartition, Committed]) -> bool:
    """Return whether the group exists: Kafka describes an unknown group as Dead."""
    return group.state != _DEAD or bool(offsets)


def refuse_missing(group: DescribedGroup, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Raise ApiError GROUP_ID_NOT_FOUND if the group does not exist."""
    if not exists(group, offsets):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group.group}")
