"""Write permissions of producers: by topic, and by transactional id for the whole request.

Only a batch's own header counts, not the request's: a transactional batch without a transactional
id is always refused.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import (
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    authorization_failed,
    permits,
)
from headrace.record.batch import TRANSACTIONAL
from headrace.record.batch_layout import ATTRIBUTES_AT, HEADER_BYTES, MAGIC, MAGIC_AT
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.wire.kafka.hot.produce import TOPIC_IDS_FROM, ProduceRequest, TopicData

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.kafka.connection.handler import RequestContext
    from headrace.frontends.kafka.produce.transaction_begin import Place
    from headrace.model.errors import ApiError
    from headrace.security.identity import Identity

    Refused = dict[Place, ApiError]
    """Errors of batches by their places in the request."""

NONE_REFUSED: "Refused" = {}
_FLAGS_AT = ATTRIBUTES_AT + 1
"""Position of the lower byte of a batch's attributes."""


def allowed(context: "RequestContext", request: ProduceRequest) -> "tuple[ProduceRequest, Refused]":
    """Return the request without the batches that the client may not write, and their errors."""
    name = request.transactional_id
    unnamed = is_unnamed(request)
    if context.broker.authorizer.allows_all and not unnamed:
        return request, NONE_REFUSED
    if name is not None and _is_transactional(request):
        unnamed = not permits(context, WRITE_TRANSACTION, name)
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


def is_unnamed(request: ProduceRequest) -> bool:
    """Tell whether a request has a transactional batch, but no transactional id."""
    return request.transactional_id is None and _is_transactional(request)


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topics:
        for data in topic.partitions:
            records = data.records or b""
            if (
                len(records) >= HEADER_BYTES  # malformed batches are refused when they are appended
                and records[_FLAGS_AT] & TRANSACTIONAL
                and records[MAGIC_AT] == MAGIC
            ):
                return True
    return False


def _may_write(context: "RequestContext", topic: TopicData) -> bool:
    name = topic.name
    if context.version >= TOPIC_IDS_FROM:
        known = context.broker.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return True  # refused when it is appended
        name = known.name
    return permits(context, WRITE_TOPIC, name)


def may_run(
    broker: "Broker", identity: "Identity", name: str, topic_id: bytes, transactional_id: str | None
) -> bool:
    """Tell whether the client may produce to a topic, named or by id, in a run of requests."""
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
