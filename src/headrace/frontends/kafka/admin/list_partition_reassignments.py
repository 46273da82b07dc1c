"""ListPartitionReassignments (key 46, v0): no replica is on its way: there is one broker.

Only the controller knows: other brokers answer NOT_CONTROLLER.
"""

from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.connection.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker


def handle(context: RequestContext, request: Entity) -> Entity:
    """Name nothing."""
    error = refusal(context, DESCRIBE_CLUSTER) or not_controller(context)
    return maker(context)(None, **error_fields(error), topics=())
