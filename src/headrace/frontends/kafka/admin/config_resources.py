"""What AlterConfigs and IncrementalAlterConfigs share: whose settings, and one outcome for each."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum

from headrace.config.descriptions import Alteration, AlterOperation, Change
from headrace.frontends.kafka.admin.reserved_topics import check_not_reserved
from headrace.frontends.kafka.authentication.authorisation import Ask, require
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.observe import logs
from headrace.security import authorizer
from headrace.security.authorizer import CLUSTER_NAME, Operation


class ResourceType(IntEnum):
    """Who can have settings, as the protocol numbers them."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_ASKED_OF = {
    ResourceType.TOPIC: authorizer.ResourceType.TOPIC,
    ResourceType.GROUP: authorizer.ResourceType.GROUP,
    ResourceType.BROKER: authorizer.ResourceType.CLUSTER,
    ResourceType.BROKER_LOGGER: authorizer.ResourceType.CLUSTER,
    ResourceType.CLIENT_METRICS: authorizer.ResourceType.CLUSTER,
}
"""Whose permission it takes to see or change the settings."""


def check_allowed(context: RequestContext, resource: Entity, operation: Operation) -> None:
    """Refuse who may not do that to the resource's settings. ApiError.

    A type that has no settings is refused for that.
    """
    kind = _ASKED_OF.get(resource.resource_type)
    if kind is not None:
        of_cluster = kind is authorizer.ResourceType.CLUSTER
        name = CLUSTER_NAME if of_cluster else resource.resource_name
        require(context, Ask(operation, kind), name)


def described_name(resource_type: int) -> str:
    """Return a resource type in words."""
    try:
        return ResourceType(resource_type).name.lower().replace("_", " ")
    except ValueError:
        return f"resource type {resource_type}"


async def alter(
    context: RequestContext, request: Entity, change: Callable[[Entity], Change]
) -> Entity:
    """Alter each resource for itself by what `change` reads out of it; the whole response."""
    make = maker(context)
    times = Counter(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    responses = []
    for resource in request.resources:
        problem = None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_allowed(context, resource, Operation.ALTER_CONFIGS)
            await _alter_one(context, resource, change(resource), request.validate_only)
        except ApiError as error:
            problem = error
        responses.append(
            make(
                "AlterConfigsResourceResponse",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                **error_fields(problem),
            )
        )
    return make(None, responses=tuple(responses))


async def _alter_one(
    context: RequestContext, resource: Entity, change: Change, validate_only: bool
) -> None:
    settings = context.controller.settings
    name: str = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_not_reserved(name, lambda topics: topics.configs)
        await settings.alter_topic(name, change, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER:
        await settings.alter_broker(name, change, validate_only=validate_only)
    elif resource.resource_type == ResourceType.GROUP:
        await settings.groups.alter(name, change, validate_only=validate_only)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        await settings.client_metrics.alter(name, change, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER_LOGGER:
        check_broker_name(context, name)
        _alter_loggers(change, validate_only)
    else:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{described_name(resource.resource_type)} has no settings here",
        )


def check_broker_name(context: RequestContext, name: str) -> None:
    """Refuse loggers of no broker or of another one; ApiError INVALID_REQUEST."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(context.broker.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.broker.broker_id} but received {name[:20]}",
        )


def _alter_loggers(change: Change, validate_only: bool) -> None:
    """Set the levels of loggers, or have them follow their parents again (KIP-412)."""
    if isinstance(change, Mapping):
        raise ApiError(ErrorCode.INVALID_REQUEST, "loggers are altered one by one")
    for alteration in change:
        _check_logger(alteration)
    if validate_only:
        return
    for name, operation, value in change:
        logs.set_level(name, value if operation is AlterOperation.SET else None)


def _check_logger(alteration: Alteration) -> None:
    name, operation, value = alteration
    if name not in logs.levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is AlterOperation.SET:
        if value not in logs.LOGGER_LEVELS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {value} as it is not a supported log"
                f" level. Valid log levels are {', '.join(logs.LOGGER_LEVELS)}",
            )
    elif operation is not AlterOperation.DELETE:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{operation.name} operation is not allowed for loggers"
        )
    elif name == logs.ROOT_LOGGER:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Removing the log level of the {name} logger is not allowed",
        )
