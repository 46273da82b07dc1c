"""IncrementalAlterConfigs (key 44, v0-v1): set, delete, append to or subtract from single settings.

Settings take effect at once, without a restart.

Versions: v1 flexible
"""

from headrace.frontends.kafka.admin.config_resources import alter
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.operations.configs import ConfigEdit


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Alter settings; answer with one result per resource, in the order asked."""
    return await alter(context, request, _edit, whole=False)


def _edit(config: Entity) -> ConfigEdit:
    return ConfigEdit(config.name, config.value, config.config_operation)
