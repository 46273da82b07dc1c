"""DescribeLogDirs (key 35, v1-v5): return the replicas of each log directory and their sizes.

A log that moves between directories is in both, its copy as a future replica with its lag. A failed
directory is listed with KAFKA_STORAGE_ERROR and without logs. Volume sizes are -1 where the system
does not report them. Logs set aside as `-stray` are listed if the topic `/-stray` is asked for, by
the names of their directories: no topic can have such a name, and Kafka lists none.

Versions: v2 flexible · v3 top-level error · v4 volume sizes · v5 cordoned directories: there are
none
"""

from collections.abc import Callable, Mapping
from itertools import chain

from headrace.broker.broker import Broker
from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.model.errors import ErrorCode
from headrace.model.nouns import STRAY_LOGS, Offset

UNKNOWN_BYTES = -1

_Wanted = Mapping[str, frozenset[int]] | None
"""Partitions by topic; None: all partitions."""


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeLogDirs with one result per log directory."""
    make = maker(context)
    forbidden = refusal(context, DESCRIBE_CLUSTER)
    if forbidden is not None:
        return make(None, error_code=forbidden.code, results=())
    wanted: _Wanted = None
    if request.topics is not None:
        wanted = {topic.topic: frozenset(topic.partitions) for topic in request.topics}
    broker = context.broker
    results = tuple(_directory(make, broker, directory, wanted) for directory in broker.directories)
    return make(None, error_code=ErrorCode.NONE, results=results)


def _directory(make: Make, broker: Broker, directory: LogDirectory, wanted: _Wanted) -> Entity:
    topics: dict[str, list[Entity]] = {}
    logs = () if directory.fenced else (directory.logs, directory.futures.logs)
    for log in chain.from_iterable(each.values() for each in logs):
        key = log.topic_partition
        if wanted is not None and key.partition not in wanted.get(key.topic, ()):
            continue
        is_future = directory.logs.get(key) is not log
        topics.setdefault(key.topic, []).append(
            make(
                "DescribeLogDirsPartition",
                partition_index=key.partition,
                partition_size=sum(segment.size for segment in log.segments),
                offset_lag=max(0, _end_wanted(broker, log, is_future=is_future) - log.end_offset),
                is_future_key=is_future,
            )
        )
    if wanted is not None and STRAY_LOGS in wanted and not directory.fenced:
        topics |= _strays(make, broker, directory)
    return make(
        "DescribeLogDirsResult",
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if directory.fenced else ErrorCode.NONE,
        log_dir=broker.disk.absolute(directory.path),
        topics=tuple(
            make("DescribeLogDirsTopic", name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
        total_bytes=_told(broker.disk.total_bytes, directory),
        usable_bytes=_told(broker.disk.free_bytes, directory),
        is_cordoned=False,
    )


def _strays(make: Make, broker: Broker, directory: LogDirectory) -> dict[str, list[Entity]]:
    return {
        stray.name: [
            make(
                "DescribeLogDirsPartition",
                partition_index=stray.partition.partition,
                partition_size=stray.size,
                offset_lag=0,
                is_future_key=False,
            )
        ]
        for stray in directory.strays
        if broker.disk.exists(stray.path)  # an operator may have deleted it
    }


def _end_wanted(broker: Broker, log: Log, *, is_future: bool) -> Offset:
    """Return the offset that a log should reach: for a copy, the end of its original."""
    key = log.topic_partition
    if is_future:
        for directory in broker.directories:
            if key in directory.logs:
                return directory.logs[key].end_offset
    return log.high_watermark


def _told(ask: Callable[[str], int], directory: LogDirectory) -> int:
    try:
        return ask(directory.path)
    except OSError:
        return UNKNOWN_BYTES
