"""Replicas of partitions: leader elections, reassignments, log directories, log end offsets.

An error of one partition is returned with it; an error of the whole request is raised as ApiError.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from headrace.client.calls.call import Call, ColdCall, HotCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import STRAY_LOGS, TopicPartition, by_topic
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets as codec

PREFERRED, UNCLEAN = range(2)
"""Election types: elect the first (preferred) replica, or any replica left (unclean)."""

DEBUGGING_REPLICA_ID = -2
"""Replica id in ListOffsets that makes followers answer too, with their log end offsets."""

Outcome = dict[TopicPartition, ApiError | None]


class ReplicaLog(NamedTuple):
    """The size and lag of a replica's log in a log directory (DescribeLogDirs)."""

    size: int
    """Size of the log in bytes."""
    lag: int
    """How many offsets the log end is below the high watermark."""
    directory: str = ""
    """Path of the log directory on its broker; empty if not known."""


class LogDir(NamedTuple):
    """A log directory of a broker (DescribeLogDirs)."""

    path: str
    failed: bool
    """Whether the directory has failed, so that its partitions are offline."""
    free: int
    """Free bytes of the file system; -1 if not known."""
    total: int
    """Total bytes of the file system; -1 if not known."""
    logs: Mapping[TopicPartition, ReplicaLog]


class StrayDirectory(NamedTuple):
    """A `-stray` directory: a partition's log that the broker set aside and does not serve."""

    log_dir: str
    name: str
    """The directory's name within `log_dir`: `topic-0.<32 hex digits>-stray`."""
    size: int
    """Size of the directory's log in bytes."""


class Reassigning(NamedTuple):
    """A running reassignment; `replicas` holds all, with those being added and removed."""

    partition: TopicPartition
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


async def log_dirs(client: Client, broker: int) -> dict[TopicPartition, ReplicaLog]:
    """Return the size and lag of each replica in the healthy log directories of a broker."""
    found: dict[TopicPartition, ReplicaLog] = {}
    for directory in await directories(client, broker):
        found.update(directory.logs)
    return found


async def directories(client: Client, broker: int) -> list[LogDir]:
    """Return all log directories of a broker, failed ones included."""
    return await client.ask(await client.broker(broker), _describe_log_dirs(None))


async def stray_logs(client: Client, broker: int) -> list[StrayDirectory]:
    """Return the logs that a broker has set aside as `-stray` directories."""
    call = _describe_log_dirs([STRAY_LOGS])
    return [
        StrayDirectory(directory.path, name.topic, log.size)
        for directory in await client.ask(await client.broker(broker), call)
        for name, log in directory.logs.items()
    ]


def _describe_log_dirs(topics: Sequence[str] | None) -> ColdCall[list[LogDir]]:
    """Build a DescribeLogDirs request for `topics`; None: all topics."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        if topics is None:
            return maker.request(topics=None)
        asked = [maker.part("DescribableLogDirTopic", topic=name, partitions=()) for name in topics]
        return maker.request(topics=tuple(asked))

    def parse(response: Any) -> list[LogDir]:  # noqa: ANN401
        check(getattr(response, "error_code", 0))
        return [
            LogDir(
                directory.log_dir,
                bool(directory.error_code),
                getattr(directory, "usable_bytes", -1),
                getattr(directory, "total_bytes", -1),
                {
                    TopicPartition(topic.name, partition.partition_index): ReplicaLog(
                        partition.partition_size, partition.offset_lag, directory.log_dir
                    )
                    for topic in directory.topics
                    for partition in topic.partitions
                },
            )
            for directory in response.results
        ]

    return ColdCall(ApiKey.DESCRIBE_LOG_DIRS, build, parse)


async def log_ends(
    client: Client, leader: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the log end offsets (LEO) of partitions that a broker leads, by their leader epochs.

    Uses OffsetForLeaderEpoch, which returns the end of the current epoch, committed or not.
    Partitions with an error are left out.
    """

    def build(maker: Maker) -> Any:  # noqa: ANN401
        topics = tuple(
            maker.part(
                "OffsetForLeaderTopic",
                topic=topic,
                partitions=tuple(
                    maker.part(
                        "OffsetForLeaderPartition",
                        partition=index,
                        leader_epoch=epochs[TopicPartition(topic, index)],
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(sorted(epochs)).items()
        )
        return maker.request(replica_id=-1, topics=topics)

    def parse(response: Any) -> dict[TopicPartition, int]:  # noqa: ANN401
        return {
            TopicPartition(topic.topic, found.partition): found.end_offset
            for topic in response.topics
            for found in topic.partitions
            if not found.error_code and found.end_offset >= 0
        }

    call = ColdCall(ApiKey.OFFSET_FOR_LEADER_EPOCH, build, parse, versions=(3, 4))
    return await client.ask(await client.broker(leader), call)


async def ends_on(
    client: Client, broker: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the log end offsets (LEO) of a broker's replicas, whether it leads or follows.

    Partitions without a healthy replica on that broker are left out.
    """
    asked = [
        codec.TopicRequest(topic, [codec.PartitionRequest(index, codec.LATEST) for index in some])
        for topic, some in by_topic(sorted(partitions)).items()
    ]
    timeout_ms = int(client.request_timeout_seconds * 1000)
    request = codec.ListOffsetsRequest(DEBUGGING_REPLICA_ID, 0, asked, timeout_ms)
    call = HotCall(ApiKey.LIST_OFFSETS, codec.encode_request, codec.decode_response, request)
    response = await client.ask(await client.broker(broker), call)
    return {
        TopicPartition(topic.name, found.partition): found.offset
        for topic in response.topics
        for found in topic.partitions
        if not found.error_code and found.offset >= 0
    }


async def elect_leaders(
    client: Client, kind: int, partitions: Sequence[TopicPartition] | None
) -> Outcome:
    """Elect leaders of `partitions` and return each one's error or None.

    `partitions` None: all that need an election; only those are returned. `kind`: PREFERRED or
    UNCLEAN.
    """

    def build(maker: Maker) -> Any:  # noqa: ANN401
        named = None
        if partitions is not None:
            named = tuple(
                maker.part("TopicPartitions", topic=topic, partitions=tuple(indexes))
                for topic, indexes in by_topic(sorted(partitions)).items()
            )
        return maker.request(election_type=kind, topic_partitions=named, timeout=_timeout(client))

    def parse(response: Any) -> Outcome:  # noqa: ANN401
        check(response.error_code)
        return _outcome(
            (TopicPartition(topic.topic, partition.partition_id), partition)
            for topic in response.replica_election_results
            for partition in topic.partition_result
        )

    call = ColdCall(ApiKey.ELECT_LEADERS, build, parse, versions=(1, 2))
    return await client.ask_controller(call)


async def reassign(client: Client, moves: Mapping[TopicPartition, Sequence[int] | None]) -> Outcome:
    """Start reassignments to the given replicas, or cancel them (None); return the outcomes."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        topics = tuple(
            maker.part(
                "ReassignableTopic",
                name=topic,
                partitions=tuple(
                    maker.part(
                        "ReassignablePartition", partition_index=index, replicas=_replicas(found)
                    )
                    for index in indexes
                    for found in (moves[TopicPartition(topic, index)],)
                ),
            )
            for topic, indexes in by_topic(sorted(moves)).items()
        )
        return maker.request(topics=topics, timeout=_timeout(client))

    def parse(response: Any) -> Outcome:  # noqa: ANN401
        check(response.error_code, response.error_message)
        return _outcome(
            (TopicPartition(topic.name, partition.partition_index), partition)
            for topic in response.responses
            for partition in topic.partitions
        )

    return await client.ask_controller(ColdCall(ApiKey.ALTER_PARTITION_REASSIGNMENTS, build, parse))


async def reassignments(client: Client) -> list[Reassigning]:
    """Return the running reassignments, as the controller lists them."""
    return await client.ask_controller(_reassignments_call(client))


async def reassignments_on(client: Client, broker: int) -> list[Reassigning]:
    """Ask one broker, without retries, for the running reassignments.

    ApiError NOT_CONTROLLER if that broker is not the controller.
    """
    return await client.ask(await client.broker(broker), _reassignments_call(client))


def _reassignments_call(client: Client) -> Call[list[Reassigning]]:
    def parse(response: Any) -> list[Reassigning]:  # noqa: ANN401
        check(response.error_code, response.error_message)
        return sorted(
            Reassigning(
                TopicPartition(topic.name, partition.partition_index),
                partition.replicas,
                partition.adding_replicas,
                partition.removing_replicas,
            )
            for topic in response.topics
            for partition in topic.partitions
        )

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(topics=None, timeout=_timeout(client))

    return ColdCall(ApiKey.LIST_PARTITION_REASSIGNMENTS, build, parse)


def _timeout(client: Client) -> timedelta:
    return timedelta(seconds=client.request_timeout_seconds)


def _replicas(found: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if found is None else tuple(found)


def _outcome(results: Iterable[tuple[TopicPartition, Any]]) -> Outcome:
    outcome: Outcome = {}
    for partition, result in results:
        code = error_code(result.error_code)
        if code is ErrorCode.NOT_CONTROLLER:
            raise ApiError(code, result.error_message)
        outcome[partition] = ApiError(code, result.error_message) if code else None
    return outcome
