"""Metadata (key 3, v0-v13): return brokers, topics, partitions and their leaders.

- Addresses are those of the listener by which the request came.
- A requested topic that does not exist is created if the client and auto.create.topics.enable allow
  it; the answer waits until it is usable (ADR 14).
- Created partitions count in the client's controller_mutation_rate, as with CreateTopics. Above it
  the answer is UNKNOWN_TOPIC_OR_PARTITION, and the client may retry.
- An equal request gets a cached answer while none of its topics has changed.
- If the controller cannot be reached the answer is UNKNOWN_TOPIC_OR_PARTITION too, as in Kafka.

v4 allow creation · v8 authorized operations · v10 topic ids · v12 asked by id · v13 top-level error
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.metadata_image import (
    MetadataImage,
    PartitionInfo,
    TopicInfo,
    offline_replicas,
)
from headrace.frontends.kafka.authentication.authorisation import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC,
    operations,
    operations_of_cluster,
    permits,
    refused,
)
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.mutation_quota import mutations
from headrace.model.errors import ErrorCode
from headrace.model.nouns import INTERNAL_TOPICS, topic_name_problem
from headrace.net.pending import Pending
from headrace.security.authorizer import ResourceType
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

    from headrace.model.errors import ApiError

_NO_ID = bytes(16)
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NOT_THERE_YET = frozenset({ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NOT_CONTROLLER})
"""Errors of a creation that may succeed when the client retries."""


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer Metadata from the cache or the metadata image; create missing topics if allowed."""
    image, shared = context.broker.image, context.shared
    identity = context.identity
    authorizer = context.broker.authorizer
    question = (
        context.version,
        identity.listener,
        identity.principal,
        None if authorizer.allows_all else (identity.host, identity.tags),
        authorizer.version,
        bytes(body),
    )
    known = shared.metadata_answers.get(question)
    if known is not None:
        return known
    request = decode_request(context.version, body)
    missing = _missing(image, request) if request.allow_auto_topic_creation else []
    failed: dict[str, ErrorCode] = {}
    if missing and not authorizer.allows_all:
        missing, failed = _creatable(context, missing)
    if missing:
        pending = Pending(alone=True)
        creating = context.controller.auto_create(missing, spend=mutations(context, 0).spend)
        shared.spawn(_answer_created(replace(context), creating, request, failed, pending))
        return pending
    response = _response(context, request, failed)
    answer = encode_response(context.version, response)
    if all(topic.error_code == 0 for topic in response.topics):
        shared.metadata_answers.keep(
            question, answer, (topic.name or "" for topic in response.topics)
        )
    return answer


def _missing(image: MetadataImage, request: MetadataRequest) -> list[str]:
    """Return the requested names that are valid and not of an existing topic."""
    topics = request.topics or ()
    names = dict.fromkeys(
        name for name, topic_id in topics if name is not None and topic_id == _NO_ID
    )
    return [name for name in names if name not in image.topics and topic_name_problem(name) is None]


async def _answer_created(
    context: RequestContext,
    creating: "Coroutine[Any, Any, dict[str, ApiError | None]]",
    request: MetadataRequest,
    failed: dict[str, ErrorCode],
    pending: Pending,
) -> None:
    """Create missing topics, then answer from the changed metadata image."""
    try:
        outcome = await creating
        for name, error in outcome.items():
            if error is None:
                context.broker.audit.changed(
                    context.identity, by="METADATA", topic=name, result="NONE", done=True
                )
        failed = failed | {
            name: error.code
            for name, error in outcome.items()
            if error is not None and error.code not in _NOT_THERE_YET
        }
        response = _response(context, request, failed)
        pending.resolve(encode_response(context.version, response))
    except Exception as error:  # noqa: BLE001 - the connection is told to end, and says why
        pending.fail(error)


def _creatable(
    context: RequestContext, missing: list[str]
) -> tuple[list[str], dict[str, ErrorCode]]:
    """Return the topics that the client may create, and errors of others that it may see."""
    hidden = refused(context, DESCRIBE_TOPIC, missing)
    missing = [name for name in missing if name not in hidden]
    enabled = context.broker.config.auto_create_topics_enable
    made = [name for name in missing if enabled or name in INTERNAL_TOPICS]
    if not made or permits(context, CREATE_CLUSTER, told=False):
        return missing, {}
    forbidden = refused(context, CREATE_TOPIC, made)
    failed = dict.fromkeys(forbidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return [name for name in missing if name not in forbidden], failed


def _response(
    context: RequestContext, request: MetadataRequest, failed: dict[str, ErrorCode]
) -> MetadataResponse:
    """Return the response from the metadata image; `failed` has errors of failed creations."""
    image = context.broker.image
    if request.topics is None:
        hidden = refused(context, DESCRIBE_TOPIC, image.topics, told=False)
        seen = (topic for topic in image.topics.values() if topic.name not in hidden)
        topics = [_topic(context, request, topic) for topic in seen]
    else:
        hidden = refused(context, DESCRIBE_TOPIC, _names(image, request.topics))
        topics = [_asked_topic(context, request, asked, hidden, failed) for asked in request.topics]
    cluster_operations = OPERATIONS_UNKNOWN
    if request.include_cluster_authorized_operations:
        cluster_operations = operations_of_cluster(context)
    return MetadataResponse(
        brokers=_brokers(image, context.identity.listener),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _brokers(image: MetadataImage, listener: str) -> list[BrokerResponse]:
    found = []
    for broker in image.reachable_brokers():  # clients would choose dead ones, too
        endpoint = image.endpoint(broker, listener)
        if endpoint is not None:
            found.append(
                BrokerResponse(broker.broker_id, endpoint.host, endpoint.port, broker.rack)
            )
    return found


def _names(image: MetadataImage, asked: Iterable[TopicRequest]) -> Iterator[str]:
    """Yield the names of the requested topics; unknown ids are skipped."""
    for name, topic_id in asked:
        if name is not None and topic_id == _NO_ID:
            yield name
        elif topic_id in image.topics_by_id:
            yield image.topics_by_id[topic_id].name


def _asked_topic(
    context: RequestContext,
    request: MetadataRequest,
    asked: TopicRequest,
    hidden: frozenset[str],
    failed: dict[str, ErrorCode],
) -> TopicResponse:
    image = context.broker.image
    name, topic_id = asked
    if name is None or topic_id != _NO_ID:  # Java's client sends "" with an id
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return TopicResponse(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, False, [])
        if topic.name in hidden:
            # Ids are not secret, names are.
            return TopicResponse(_FAILED, None, topic_id, False, [])
        return _topic(context, request, topic)
    if name in hidden:
        return TopicResponse(_FAILED, name, _NO_ID, False, [])
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(context, request, topic)
    code = failed.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_name_problem(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return TopicResponse(code, name, _NO_ID, False, [])


def _topic(context: RequestContext, request: MetadataRequest, topic: TopicInfo) -> TopicResponse:
    may = OPERATIONS_UNKNOWN
    if request.include_topic_authorized_operations:
        may = operations(context, ResourceType.TOPIC, topic.name)
    partitions = [_partition(each, context.broker.image) for each in topic.partitions]
    return TopicResponse(0, topic.name, topic.topic_id, topic.internal, partitions, may)


def _partition(partition: PartitionInfo, image: MetadataImage) -> PartitionResponse:
    leader = image.reachable_leader(partition)
    code = ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionResponse(
        code,
        partition.index,
        leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(offline_replicas(partition, image.brokers)),
    )
