"""ListConfigResources (key 74, v0-v1): list the resources that have settings (KIP-1142).

All topics and brokers; groups and client metrics subscriptions only if settings were stored for
them. v0 lists client metrics subscriptions only, and was named after them (KIP-1000).

Versions: v1 resource types
"""

from collections.abc import Iterable

from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_CLUSTER_CONFIGS,
    refusal,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode
from headrace.operations.configs import ConfigResource


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer ListConfigResources with all names of the requested kinds, or of every kind."""
    make = maker(context)
    forbidden = refusal(context, DESCRIBE_CLUSTER_CONFIGS)
    if forbidden is not None:
        return make(None, error_code=forbidden.code, config_resources=())
    asked: frozenset[int] = frozenset({ConfigResource.CLIENT_METRICS})
    if context.version >= 1:
        every = frozenset(ConfigResource)
        asked = frozenset(int(resource_type) for resource_type in request.resource_types) or every
        if not asked <= every:
            return make(None, error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
    found = tuple(
        make("ConfigResource", resource_name=name, resource_type=int(kind))
        for kind in ConfigResource
        if kind in asked
        for name in _names(context, kind)
    )
    return make(None, error_code=ErrorCode.NONE, config_resources=found)


def _names(context: RequestContext, kind: ConfigResource) -> Iterable[str]:
    settings = context.controller.settings
    match kind:
        case ConfigResource.TOPIC:
            return sorted(context.broker.image.topics)
        case ConfigResource.BROKER | ConfigResource.BROKER_LOGGER:
            return [str(broker) for broker in sorted(context.broker.image.brokers)]
        case ConfigResource.CLIENT_METRICS:
            return settings.client_metrics.names()
        case ConfigResource.GROUP:
            return settings.groups.names()
