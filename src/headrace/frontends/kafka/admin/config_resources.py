"""The common part of AlterConfigs and IncrementalAlterConfigs: one outcome for each resource."""

from collections.abc import Callable

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.operations.configs import ConfigEdit, ResourceEdits, alter_configs


async def alter(
    context: RequestContext, request: Entity, edit: Callable[[Entity], ConfigEdit], *, whole: bool
) -> Entity:
    """Alter each resource's settings, as `edit` reads them; return the whole response.

    `whole` resets settings that are not named (AlterConfigs).
    """
    make = maker(context)
    outcomes = await alter_configs(
        operating(context),
        [
            ResourceEdits(each.resource_type, each.resource_name, [*map(edit, each.configs)])
            for each in request.resources
        ],
        whole=whole,
        validate_only=request.validate_only,
    )
    responses = tuple(
        make(
            "AlterConfigsResourceResponse",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            **error_fields(problem),
        )
        for resource, problem in zip(request.resources, outcomes, strict=True)
    )
    return make(None, responses=responses)
