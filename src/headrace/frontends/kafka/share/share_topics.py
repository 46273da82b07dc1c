"""The internal topics of share groups, created when a group is first joined or altered."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.importing import imported
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC


async def ensure(context: RequestContext) -> None:
    """Create missing topics and import the coordinators; raise COORDINATOR_NOT_AVAILABLE."""
    await imported(context.broker.disk, "headrace.coordination.share.share_service")
    try:
        for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            if name not in context.broker.image.topics:
                await context.controller.ensure_internal_topic(name)
    except ApiError as error:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
