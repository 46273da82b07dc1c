"""Metadata (key 3, v0-v13): brokers, topics, partitions and their leaders.

* Addresses are those of the listener the request came through.
* A topic that is asked for and does not exist is created where the client and
  auto.create.topics.enable allow it; the answer waits until it can be used (ADR 14).
* What is created counts in the client's controller_mutation_rate, as with CreateTopics. Over it the
  topic is not there (UNKNOWN_TOPIC_OR_PARTITION), and the client may ask again.
* The same question gets the answer made before, while no topic of it has changed.

v4 allow creation · v8 authorized operations · v10 topic ids · v12 asked by id · v13 top-level error
"""

from typing import TYPE_CHECKING, Any

from headrace.broker.metadata_image import MetadataImage, PartitionInfo, TopicInfo
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.mutation_quota import mutations
from headrace.model.errors import ErrorCode
from headrace.model.nouns import topic_name_problem
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.metadata import (
    OPERATIONS_UNKNOWN,
    BrokerResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
    decode_request,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from headrace.broker.broker import Broker
    from headrace.model.errors import ApiError

TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs: without an
authorizer everybody may, and Kafka says so to who asks."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite."""
_NO_ID = bytes(16)


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer one Metadata request."""
    image, shared = context.broker.image, context.shared
    identity = context.identity
    question = (context.version, identity.listener, identity.principal, bytes(body))
    known = shared.metadata_answers.get(question)
    if known is not None:
        return known
    request = decode_request(context.version, body)
    missing = _missing(image, request) if request.allow_auto_topic_creation else []
    if missing:
        pending = Pending(alone=True)
        asked = context.version, identity.listener
        creating = context.controller.auto_create(missing, spend=mutations(context, 0).spend)
        shared.spawn(_answer_created(context.broker, creating, asked, request, pending))
        return pending
    response = _response(image, identity.listener, request, {})
    answer = encode_response(context.version, response)
    if all(topic.error_code == 0 for topic in response.topics):
        shared.metadata_answers.keep(
            question, answer, (topic.name or "" for topic in response.topics)
        )
    return answer


def _missing(image: MetadataImage, request: MetadataRequest) -> list[str]:
    """Return the names asked for that no topic has and one could have."""
    topics = request.topics or ()
    names = dict.fromkeys(
        name for name, topic_id in topics if name is not None and topic_id == _NO_ID
    )
    return [name for name in names if name not in image.topics and topic_name_problem(name) is None]


async def _answer_created(
    broker: "Broker",
    creating: "Coroutine[Any, Any, dict[str, ApiError | None]]",
    asked: tuple[int, str],
    request: MetadataRequest,
    pending: Pending,
) -> None:
    """Create what is missing, then answer from the picture that shows it."""
    version, listener = asked
    try:
        outcome = await creating
        refused: dict[str, ErrorCode] = {
            name: error.code
            for name, error in outcome.items()
            if error is not None and error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED
        }
        response = _response(broker.image, listener, request, refused)
        pending.resolve(encode_response(version, response))
    except Exception as error:  # noqa: BLE001 - the connection is told to end, and says why
        pending.fail(error)


def _response(
    image: MetadataImage, listener: str, request: MetadataRequest, refused: dict[str, ErrorCode]
) -> MetadataResponse:
    """Return what `image` says to the question. `refused`: topics that could not be created."""
    operations = OPERATIONS_UNKNOWN
    if request.include_topic_authorized_operations:
        operations = TOPIC_OPERATIONS
    if request.topics is None:
        topics = [_topic(topic, operations) for topic in image.topics.values()]
    else:
        topics = [_asked_topic(image, topic, operations, refused) for topic in request.topics]
    cluster_operations = OPERATIONS_UNKNOWN
    if request.include_cluster_authorized_operations:
        cluster_operations = CLUSTER_OPERATIONS
    return MetadataResponse(
        brokers=_brokers(image, listener),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _brokers(image: MetadataImage, listener: str) -> list[BrokerResponse]:
    found = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            found.append(
                BrokerResponse(broker.broker_id, endpoint.host, endpoint.port, broker.rack)
            )
    return found


def _asked_topic(
    image: MetadataImage, asked: TopicRequest, operations: int, refused: dict[str, ErrorCode]
) -> TopicResponse:
    name, topic_id = asked
    if name is None or topic_id != _NO_ID:  # Java's client sends "" beside an id
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return TopicResponse(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, False, [])
        return _topic(topic, operations)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(topic, operations)
    code = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_name_problem(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return TopicResponse(code, name, _NO_ID, False, [])


def _topic(topic: TopicInfo, operations: int) -> TopicResponse:
    partitions = [_partition(partition) for partition in topic.partitions]
    return TopicResponse(0, topic.name, topic.topic_id, topic.internal, partitions, operations)


def _partition(partition: PartitionInfo) -> PartitionResponse:
    code = ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionResponse(
        code,
        partition.index,
        partition.leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(partition.offline),
    )
