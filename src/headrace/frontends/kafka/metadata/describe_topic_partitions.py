"""DescribeTopicPartitions (key 75, v0): return topics page by page, for any number of partitions.

Java's admin client sends this before Metadata. Topics are sorted by name; a page ends after a
number of partitions, and `next_cursor` names the first partition of the next page. Topics that the
client may not see come last. The lists of KIP-966's eligible leaders are empty, as they are not
supported, and never null, which Java clients cannot handle. Authorized operations are always
included, also for topics that do not exist.
"""

from collections.abc import Iterable
from uuid import UUID

from headrace.broker.metadata_image import (
    MetadataImage,
    PartitionInfo,
    TopicInfo,
    offline_replicas,
)
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOPIC,
    operations,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    NO_UUID,
    OPERATIONS_UNKNOWN,
    Entity,
    Make,
    maker,
)
from headrace.model.errors import ErrorCode
from headrace.model.nouns import topic_name_problem
from headrace.security.authorizer import ResourceType


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeTopicPartitions with one page of topics."""
    make = maker(context)
    image = context.broker.image
    most = context.broker.config.max_request_partition_size_limit
    left = max(1, min(most, request.response_partition_limit))
    start, first = "", 0
    if request.cursor is not None:
        start, first = request.cursor.topic_name, request.cursor.partition_index
    names: Iterable[str] = {topic.name for topic in request.topics} or image.topics
    hidden = refused(context, DESCRIBE_TOPIC, names, told=bool(request.topics))
    if first < 0 or (request.cursor is not None and request.topics and start not in names):
        return _refusal(make, names if request.topics else ())
    topics: list[Entity] = []
    cursor = None
    for name in sorted(name for name in names if name >= start and name not in hidden):
        may = operations(context, ResourceType.TOPIC, name)
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_absent(make, name, may))
            continue
        begin = first if name == start else 0
        if left == 0:
            cursor = make("Cursor", topic_name=name, partition_index=begin)
            break
        page = topic.partitions[begin : begin + left]
        topics.append(_topic(make, topic, page, may, image))
        left -= len(page)
        if begin + len(page) < len(topic.partitions):
            cursor = make("Cursor", topic_name=name, partition_index=begin + len(page))
            break
    if request.topics:
        topics.extend(
            _told(make, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for name in sorted(hidden)
            if name >= start
        )
    return make(None, topics=tuple(topics), next_cursor=cursor)


def _refusal(make: Make, names: Iterable[str]) -> Entity:
    """Refuse a cursor that no answer to this request had: a topic not requested, or below 0."""
    topics = tuple(_told(make, name, ErrorCode.INVALID_REQUEST) for name in sorted(names))
    return make(None, topics=topics, next_cursor=None)


def _absent(make: Make, name: str, may: int) -> Entity:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic_name_problem(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _told(make, name, code, may)


def _told(make: Make, name: str, code: ErrorCode, may: int = OPERATIONS_UNKNOWN) -> Entity:
    return make(
        "DescribeTopicPartitionsResponseTopic",
        error_code=code,
        name=name,
        topic_id=NO_UUID,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=may,
    )


def _topic(
    make: Make,
    topic: TopicInfo,
    page: Iterable[PartitionInfo],
    may: int,
    image: MetadataImage,
) -> Entity:
    return make(
        "DescribeTopicPartitionsResponseTopic",
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id),
        is_internal=topic.internal,
        partitions=tuple(_partition(make, partition, image) for partition in page),
        topic_authorized_operations=may,
    )


def _partition(make: Make, partition: PartitionInfo, image: MetadataImage) -> Entity:
    leader = image.reachable_leader(partition)
    return make(
        "DescribeTopicPartitionsResponsePartition",
        error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=offline_replicas(partition, image.brokers),
    )
