"""FindCoordinator (key 10, v0-v6): return the coordinator of a group or a transactional id.

- `__consumer_offsets`, `__transaction_state` and `__share_group_state` are created with the first
  request.
- Keys of share groups (v6) have the form group:topic id:partition; only brokers may ask for the
  coordinator of that partition's state.

Versions: v1 key types · v3 flexible · v4 several keys · v5 TRANSACTION_ABORTABLE · v6 share groups
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.frontends.kafka.authentication.authorisation import (
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TRANSACTION,
    refusal,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.importing import imported
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.shards.led_shards import LedShards

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_KEY_PARTS = 3
_SEVERAL_SINCE = 4
_MAY = {GROUP: DESCRIBE_GROUP, TRANSACTION: DESCRIBE_TRANSACTION, SHARE: CLUSTER_ACTION}
_KEPT_BY = {
    GROUP: "headrace.coordination.groups.group_coordinators",
    TRANSACTION: "headrace.coordination.transactions.transaction_coordinators",
    SHARE: "headrace.coordination.share.share_service",
}


class _Found(NamedTuple):
    """The coordinator of a key: its broker's address, or the error."""

    error: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer FindCoordinator for each key; create the internal topic if missing."""
    key_type = getattr(request, "key_type", GROUP)
    make = maker(context)
    if key_type in _KEPT_BY:
        await imported(context.broker.disk, _KEPT_BY[key_type])
    if context.version < _SEVERAL_SINCE:
        found = await _find(context, key_type, request.key)
        return _entity(make, None, found)
    coordinators = []
    for key in request.coordinator_keys:
        found = await _find(context, key_type, key)
        coordinators.append(_entity(make, "Coordinator", found, key))
    return make(None, coordinators=tuple(coordinators))


def _entity(make: Make, name: str | None, found: _Found, key: str = "") -> Entity:
    return make(
        name,
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=found.message,
    )


def _refusal(context: RequestContext, key_type: int, key: str) -> ApiError | None:
    """Return the error for a missing permission; None also for an unknown key type."""
    if key_type not in _MAY:
        return None
    if key_type == SHARE:
        return refusal(context, CLUSTER_ACTION)
    return refusal(context, _MAY[key_type], key)


async def _find(context: RequestContext, key_type: int, key: str) -> _Found:
    forbidden = _refusal(context, key_type, key)
    if forbidden is not None:
        return _Found(forbidden.code, forbidden.message)
    broker = context.broker
    led: LedShards[Any]
    if key_type == GROUP:
        led = context.coordinators.groups.led
    elif key_type == TRANSACTION:
        led = context.coordinators.transactions.led
    elif key_type == SHARE and len(key.split(":")) >= _SHARE_KEY_PARTS:
        led = context.coordinators.share.states.led
    else:
        return _Found(ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not served")
    if led.topic not in broker.image.topics:
        try:
            await context.controller.ensure_internal_topic(led.topic)
        except ApiError as error:
            return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or error.code.name)
    image = broker.image
    topic = image.topics.get(led.topic)
    if topic is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{led.topic} is not there")
    leader = topic.partitions[led.partition_for(key)].leader
    node = image.brokers.get(leader)
    endpoint = None if node is None else image.endpoint(node, context.identity.listener)
    if endpoint is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's broker is not there")
    return _Found(ErrorCode.NONE, None, int(leader), endpoint.host, endpoint.port)
