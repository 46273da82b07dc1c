"""Whether who produces may: each topic for itself, a batch of a transaction for the whole request.

Only what a batch says of itself counts, not the request's header: a batch of a transaction that
comes without a transactional id is refused, whoever sends it.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.authorisation import (
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    authorization_failed,
    permits,
)
from headrace.model.errors import ApiError
from headrace.record.batch import TRANSACTIONAL, parse_header
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.wire.kafka.hot.produce import TOPIC_IDS_FROM, ProduceRequest, TopicData

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.kafka.connection.handler import RequestContext
    from headrace.frontends.kafka.produce.transaction_begin import Place
    from headrace.security.identity import Identity

    Refused = dict[Place, ApiError]
    """Why batches are not taken, by their places in the request."""

NONE_REFUSED: "Refused" = {}


def allowed(context: "RequestContext", request: ProduceRequest) -> "tuple[ProduceRequest, Refused]":
    """Return the request without batches that who asks may not write, and why he may not."""
    if context.broker.authorizer.allows_all:
        return request, NONE_REFUSED
    unnamed = _is_transactional(request) and not (
        request.transactional_id is not None
        and permits(context, WRITE_TRANSACTION, request.transactional_id)
    )
    refused: Refused = {}
    topics = []
    for topic_at, topic in enumerate(request.topics):
        kind = ResourceType.TRANSACTIONAL_ID if unnamed else ResourceType.TOPIC
        if not unnamed and _may_write(context, topic):
            topics.append(topic)
            continue
        for at in range(len(topic.partitions)):
            refused[topic_at, at] = authorization_failed(kind)
        emptied = [data._replace(records=None) for data in topic.partitions]
        topics.append(topic._replace(partitions=emptied))
    return request._replace(topics=topics), refused


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topics:
        for data in topic.partitions:
            records = data.records
            view = records if isinstance(records, memoryview) else memoryview(records or b"")
            try:
                if parse_header(view).attributes & TRANSACTIONAL:
                    return True
            except ApiError:
                continue  # told when it is to be appended
    return False


def _may_write(context: "RequestContext", topic: TopicData) -> bool:
    name = topic.name
    if context.version >= TOPIC_IDS_FROM:
        known = context.broker.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return True  # refused for that when it is to be appended
        name = known.name
    return permits(context, WRITE_TOPIC, name)


def may_run(
    broker: "Broker", identity: "Identity", name: str, topic_id: bytes, transactional_id: str | None
) -> bool:
    """Tell whether requests alike may be taken together: for a topic, by name or else by id."""
    authorizer = broker.authorizer
    if authorizer.allows_all:
        return True
    if not name:
        known = broker.image.topics_by_id.get(topic_id)
        name = "" if known is None else known.name
    if not authorizer.allows(identity, Operation.WRITE, Resource(ResourceType.TOPIC, name)):
        return False
    if transactional_id is None:
        return True
    resource = Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
    return authorizer.allows(identity, Operation.WRITE, resource)
