"""Share groups from outside: describe members, read and reset start offsets (KIP-932)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.client.admin.groups import DescribedGroup, described
from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition, by_topic
from headrace.wire.kafka.api import ApiKey


class ShareStart(NamedTuple):
    """A share group's start offset (SPSO) in a partition; all records before it are
    acknowledged."""

    offset: int | None
    lag: int | None
    """Records still to be delivered or acknowledged; None if the broker does not report it."""


async def describe_share_group(client: Client, group: str) -> DescribedGroup | None:
    """Return a share group's state and members; None if the group does not exist."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(group_ids=(group,), include_authorized_operations=False)

    def parse(response: Any) -> DescribedGroup | None:  # noqa: ANN401 - kio's entity
        found = response.groups[0]
        if error_code(found.error_code) is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        check(found.error_code, found.error_message)
        return described("share", group, found)

    return await client.ask_coordinator(group, ColdCall(ApiKey.SHARE_GROUP_DESCRIBE, build, parse))


async def share_starts(client: Client, group: str) -> dict[TopicPartition, ShareStart]:
    """Return a share group's start offsets, for all partitions that it has state of."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        wanted = maker.part("DescribeShareGroupOffsetsRequestGroup", group_id=group, topics=None)
        return maker.request(groups=(wanted,))

    def parse(response: Any) -> dict[TopicPartition, ShareStart]:  # noqa: ANN401 - kio's entity
        found = response.groups[0]
        check(found.error_code, found.error_message)
        starts = {}
        for topic in found.topics:
            for answer in topic.partitions:
                partition = TopicPartition(str(topic.topic_name), int(answer.partition_index))
                check(answer.error_code, answer.error_message)
                offset, lag = int(answer.start_offset), int(getattr(answer, "lag", -1))
                starts[partition] = ShareStart(
                    None if offset < 0 else offset, None if lag < 0 else lag
                )
        return starts

    call = ColdCall(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, build, parse)
    return await client.ask_coordinator(group, call)


async def move_share_starts(
    client: Client, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set the start offsets of a share group without members; ApiError of the first refused."""
    numbers_of = by_topic(sorted(offsets))

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        topics = tuple(
            maker.part(
                "AlterShareGroupOffsetsRequestTopic",
                topic_name=topic,
                partitions=tuple(
                    maker.part(
                        "AlterShareGroupOffsetsRequestPartition",
                        partition_index=number,
                        start_offset=offsets[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in numbers_of.items()
        )
        return maker.request(group_id=group, topics=topics)

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        check(response.error_code, response.error_message or f"group {group}")
        for topic in response.responses:
            for answer in topic.partitions:
                name = f"{topic.topic_name}-{answer.partition_index}"
                check(answer.error_code, answer.error_message or name)

    await client.ask_coordinator(group, ColdCall(ApiKey.ALTER_SHARE_GROUP_OFFSETS, build, parse))
