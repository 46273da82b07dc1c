"""IncrementalAlterConfigs (key 44, v0-v1): set, delete, append to or subtract from single settings.

Settings are taken at once, without a restart. v1 flexible
"""

from headrace.config.descriptions import Alteration, AlterOperation
from headrace.frontends.kafka.admin.config_resources import alter
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.model.errors import ApiError, ErrorCode


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per resource, in the order asked."""
    return await alter(context, request, _single)


def _single(resource: Entity) -> list[Alteration]:
    changes = []
    for config in resource.configs:
        try:
            operation = AlterOperation(config.config_operation)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{config.name}: operation {config.config_operation}?"
            ) from None
        changes.append(Alteration(config.name, operation, config.value))
    return changes
