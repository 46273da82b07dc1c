"""ListPartitionReassignments (key 46, v0): no replica is on its way: there is one broker."""

from headrace.frontends.kafka.entities import Entity, error_fields, maker
from headrace.frontends.kafka.handler import RequestContext


def handle(context: RequestContext, request: Entity) -> Entity:
    """Name nothing."""
    return maker(context)(None, **error_fields(None), topics=())
