"""GetTelemetrySubscriptions (key 71, v0): return the metrics that a client should push (KIP-714).

A client instance without an id is assigned one. A client that asks again before its push interval
has passed gets THROTTLING_QUOTA_EXCEEDED, unless its subscription has changed.
"""

from datetime import timedelta
from uuid import UUID

from headrace.broker.telemetry import ACCEPTED_CODECS, Client
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode


def client_of(context: RequestContext) -> Client:
    """Return the client attributes of a request that telemetry subscriptions can match."""
    name, version = context.client_software
    return Client(
        context.client_id or "", name, version, context.identity.host, context.client_port
    )


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the subscription of a client instance; raise ApiError."""
    telemetry = context.broker.telemetry
    asked = request.client_instance_id
    found = telemetry.subscribe(None if asked is None else asked.bytes, client_of(context))
    return maker(context)(
        None,
        error_code=ErrorCode.NONE,
        client_instance_id=UUID(bytes=found.instance),
        subscription_id=found.subscription_id,
        accepted_compression_types=tuple(int(codec) for codec in ACCEPTED_CODECS),
        push_interval=timedelta(milliseconds=found.interval_ms),
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=found.metrics,
    )
