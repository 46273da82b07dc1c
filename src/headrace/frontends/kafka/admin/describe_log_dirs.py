"""DescribeLogDirs (key 35, v1-v5): what lies in which log directory, and how large it is.

A failed directory is named with KAFKA_STORAGE_ERROR and nothing in it. Sizes of the volume are -1
where the system does not tell them.
v2 flexible · v3 top-level error · v4 volume sizes · v5 cordoned directories: there are none
"""

from collections.abc import Callable, Mapping

from headrace.broker.broker import Broker
from headrace.frontends.kafka.connection.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.errors import ErrorCode

UNKNOWN_BYTES = -1

_Wanted = Mapping[str, frozenset[int]] | None
"""Partitions by topic; None: all there are."""


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per log directory."""
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
    for key, size in () if directory.fenced else directory.sizes().items():
        if wanted is not None and key.partition not in wanted.get(key.topic, ()):
            continue
        log = directory.logs[key]
        topics.setdefault(key.topic, []).append(
            make(
                "DescribeLogDirsPartition",
                partition_index=key.partition,
                partition_size=size,
                offset_lag=max(0, log.high_watermark - log.end_offset),
                is_future_key=False,
            )
        )
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


def _told(ask: Callable[[str], int], directory: LogDirectory) -> int:
    try:
        return ask(directory.path)
    except OSError:
        return UNKNOWN_BYTES
