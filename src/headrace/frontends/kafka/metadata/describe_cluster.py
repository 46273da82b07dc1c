"""DescribeCluster (key 60, v0-v2): return the brokers' addresses on the client's listener.

v1 endpoint type (always brokers: clients cannot connect to controllers) · v2 fenced brokers
(none: a broker without a session is not in the metadata image)
"""

from headrace.frontends.kafka.authentication.authorisation import operations_of_cluster
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import OPERATIONS_UNKNOWN, Entity, maker
from headrace.model.errors import ErrorCode
from headrace.operations.describe_cluster import describe_cluster
from headrace.operations.permissions import Caller, Surface

BROKERS = 1
CONTROLLERS = 2


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeCluster with the brokers of the metadata image."""
    make = maker(context)
    kind = getattr(request, "endpoint_type", BROKERS)
    code, message = ErrorCode.NONE, None
    if kind == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "this is a broker: it knows no controllers that clients could connect to"
    elif kind != BROKERS:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {kind}?"
    may = OPERATIONS_UNKNOWN
    if code is ErrorCode.NONE and request.include_cluster_authorized_operations:
        may = operations_of_cluster(context)
    caller = Caller(context.identity, Surface.KAFKA)
    found = describe_cluster(context.broker, caller, listener=context.identity.listener)
    brokers = tuple(
        make(
            "DescribeClusterBroker",
            broker_id=broker.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=False,
        )
        for broker in found.brokers
        if code is ErrorCode.NONE
        for endpoint in broker.endpoints
    )
    return make(
        None,
        error_code=code,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id=found.cluster_id,
        controller_id=found.controller_id,
        brokers=brokers,
        cluster_authorized_operations=may,
    )
