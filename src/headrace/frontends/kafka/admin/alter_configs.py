"""AlterConfigs (key 33, v0-v2): replace all settings of topics and brokers; others are reset.

Superseded by IncrementalAlterConfigs and not sent by Java clients since 4.0; others still do.
Settings take effect at once, without a restart.

Versions: v2 flexible
"""

from headrace.frontends.kafka.admin.config_resources import alter
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.operations.configs import ConfigEdit


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Replace settings; answer AlterConfigs with one result per resource, in the order asked."""
    return await alter(context, request, _edit, whole=True)


def _edit(config: Entity) -> ConfigEdit:
    return ConfigEdit(config.name, config.value)
