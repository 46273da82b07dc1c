"""What AlterConfigs and IncrementalAlterConfigs share: whose settings, and one outcome for each."""

from collections import Counter
from collections.abc import Callable
from enum import IntEnum

from headrace.cluster.settings import Change
from headrace.frontends.kafka.entities import Entity, error_fields, maker
from headrace.frontends.kafka.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode


class ResourceType(IntEnum):
    """Who can have settings, as the protocol numbers them."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def described_name(resource_type: int) -> str:
    """A resource type in words."""
    try:
        return ResourceType(resource_type).name.lower().replace("_", " ")
    except ValueError:
        return f"resource type {resource_type}"


async def alter(
    context: RequestContext, request: Entity, change: Callable[[Entity], Change]
) -> Entity:
    """Alter each resource for itself by what `change` reads out of it; the whole response."""
    make = maker(context)
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    responses = []
    for resource in request.resources:
        problem = None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
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
        await settings.alter_topic(name, change, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER:
        await settings.alter_broker(name, change, validate_only=validate_only)
    else:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{described_name(resource.resource_type)} has no settings here",
        )
