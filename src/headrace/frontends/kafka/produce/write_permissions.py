"""Whether who produces may: each topic for itself, a batch of a transaction for the whole request.

Only what a batch says of itself counts, not the request's header: a batch of a transaction that
comes without a transactional id is refused, whoever sends it.
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
    """Why batches are not taken, by their places in the request."""

NONE_REFUSED: "Refused" = {}
_FLAGS_AT = ATTRIBUTES_AT + 1
"""The lower of the two bytes of attributes."""


def allowed(context: "RequestContext", request: ProduceRequest) -> "tuple[ProduceRequest, Refused]":
    """Return the request without batches that who asks may not write, and why he may not."""
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
    """Tell whether it has a batch of a transaction, and no transactional id."""
    return request.transactional_id is None and _is_transactional(request)


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topics:
        for data in topic.partitions:
            records = data.records or b""
            if (
                len(records) >= HEADER_BYTES  # what is no batch is told when it is to be appended
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
