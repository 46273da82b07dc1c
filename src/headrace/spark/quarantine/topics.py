"""Topics of the quarantine, made when a query starts, and the permission to write to them.

A refused record in the middle of the night must not be the first one to find that its topic cannot
be created or written.
"""

import logging
from collections.abc import Mapping, Sequence

from headrace.client.admin.acls import create_acls, describe_acls
from headrace.client.admin.topics import create_topic, topic_values
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.security.acl import AclBinding, AclFilter
from headrace.security.authorizer import PatternType, ResourceType
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.names import (
    DECISIONS,
    QUARANTINE,
    decisions_topic,
    quarantine_topic,
    transactional_id,
)
from headrace.spark.quarantine.options import SourceQuarantine
from headrace.spark.sink.decisions import DecisionLog

_log = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
_HEADERS_BYTES = 1 << 20
"""By how much a refused record may grow: its position and the reason are headers."""
_RECORD_BYTES = "max.message.bytes"
_RECORD_BYTES_MAX = (1 << 31) - 1
_WITHOUT_ACLS = frozenset({ErrorCode.SECURITY_DISABLED, ErrorCode.UNSUPPORTED_VERSION})
_UNAUTHORIZED = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


async def prepare_topics(
    client: Client, options: SourceQuarantine, partitions: Mapping[str, int]
) -> None:
    """Create the quarantine topics of source topics, and try to write to them in a transaction.

    `partitions`: number of partitions by source topic. SourceError if a source topic is a
    quarantine itself or the permission is missing; other ApiErrors are passed on.
    """
    for topic in partitions:
        if topic.endswith((QUARANTINE, DECISIONS)):
            raise SourceError(
                f"{topic}: with mode=QUARANTINE a query does not read quarantines; name topics or a"
                " subscribePattern that leave them out"
            )
    decisions = DecisionLog(client, decisions_topic(options.pipeline, options.spool.flow))
    try:
        sizes = await topic_values(client, partitions, _RECORD_BYTES)
        for topic, count in partitions.items():
            name = quarantine_topic(topic)
            await _create(client, options.retention_ms, name, count, sizes.get(topic))
            await _copy_acls(client, topic, name)
        await decisions.create()
        places = [TopicPartition(quarantine_topic(topic), 0) for topic in partitions]
        await client.leaders([place.topic for place in places])
        await _try(client, options, [decisions.partition, *places])
    except ApiError as error:
        if error.code not in _UNAUTHORIZED:
            raise
        raise SourceError(
            f"the quarantine of flow {options.spool.flow} cannot be written: {error}. The query"
            f" needs CREATE and WRITE on {', '.join(map(quarantine_topic, partitions))} and"
            f" {decisions.partition.topic}, and WRITE on the transactional id"
            f" {transactional_id(options.pipeline, options.spool.flow)}"
        ) from error


async def prepare_retry_topics(
    client: Client, options: SourceQuarantine, topics: Sequence[str]
) -> None:
    """Create the retry topics of source topics, with their ACLs.

    SourceError names a permission that is missing; ApiError.
    """
    sizes = await topic_values(client, topics, _RECORD_BYTES)
    names = options.retry_topics(topics)
    try:
        for topic, name in zip(topics, names, strict=True):
            # The copies count as settled: they wait for the query, however late it reads them.
            await _create(client, -1, name, 1, sizes.get(topic))
            await _copy_acls(client, topic, name)
        await client.leaders(list(names))
    except ApiError as error:
        if error.code not in _UNAUTHORIZED:
            raise
        raise SourceError(
            f"replayed records of flow {options.spool.flow} cannot be read: {error}. The query"
            f" needs CREATE and READ on {', '.join(names)}"
        ) from error


async def _create(
    client: Client, retention_ms: int, name: str, partitions: int, size: str | None
) -> None:
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
    }
    if size is not None:
        configs[_RECORD_BYTES] = str(min(int(size) + _HEADERS_BYTES, _RECORD_BYTES_MAX))
    known = await client.metadata([name])
    if not known.topics[name].error_code:
        return
    try:
        await create_topic(client, name, partitions=partitions, configs=configs)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _copy_acls(client: Client, topic: str, name: str) -> None:
    """Give a topic with refused records the literal ACLs of the source topic."""

    def literal(of: str) -> AclFilter:
        return AclFilter(ResourceType.TOPIC, of, PatternType.LITERAL)

    try:
        there = set(await describe_acls(client, literal(name)))
        wanted = [
            AclBinding(binding.resource._replace(name=name), binding.entry)
            for binding in await describe_acls(client, literal(topic))
        ]
        missing = [binding for binding in wanted if binding not in there]
        failed = list(filter(None, await create_acls(client, missing))) if missing else []
    except ApiError as error:
        if error.code in _WITHOUT_ACLS:
            return
        failed = [error]
    if failed:
        _log.warning(
            "the ACLs of topic %s cannot be copied to %s: %s. Copy them with an administrator's"
            " credentials: the quarantine has the same data",
            topic, name, failed[0],
        )  # fmt: skip


async def _try(client: Client, options: SourceQuarantine, places: Sequence[TopicPartition]) -> None:
    """Begin a transaction with these partitions and abort it; nothing is written."""
    name = transactional_id(options.pipeline, options.spool.flow)
    writer = await transactions.take_id(client, name, _TIMEOUT_MS)
    await transactions.add_partitions(client, writer, places)
    await transactions.end(client, writer, commit=False)
