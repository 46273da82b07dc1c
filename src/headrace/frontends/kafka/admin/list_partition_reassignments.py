"""ListPartitionReassignments (key 46, v0): no replica is on its way: there is one broker."""

from headrace.frontends.kafka.connection.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker


def handle(context: RequestContext, request: Entity) -> Entity:
    """Name nothing."""
    return maker(context)(None, **error_fields(refusal(context, DESCRIBE_CLUSTER)), topics=())
