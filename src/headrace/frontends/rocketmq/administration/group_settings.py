"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): an operator sets a group's settings.

Consumption is switched off and on by `consumeEnable`: pulls of a group that is switched off are
answered NO_PERMISSION, parked ones at once. Its offsets stay, and can be reset meanwhile.
"""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.groups import body_object
from headrace.model.errors import Malformed
from headrace.operations.permissions import AdminOperation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config
from headrace.wire.rocketmq.topic_names import GROUP_CHARACTERS_MAX, check_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker


def update_group(call: "RemotingCall") -> None:
    """Answer UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) once the settings are stored."""
    config = group_config(body_object(call))
    try:
        check_name(config.name, GROUP_CHARACTERS_MAX, "group")
    except Malformed as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    call.require_admin(AdminOperation.ALTER_GROUP_CONFIGS, config.name)
    detail = {"group": config.name, "consumeEnable": config.consume_enabled}
    call.change(detail, _update(call.broker, config), RemotingAnswer())


async def _update(broker: "ServedBroker", config: GroupConfig) -> None:
    await broker.configs.groups.put(config.name, config)
    if not config.consume_enabled:
        broker.parked.wake(config.name)


def set_request_mode(call: "RemotingCall") -> RemotingAnswer:
    """Answer SET_MESSAGE_REQUEST_MODE (401): groups pull; POP is not served."""
    body = body_object(call)
    group, mode = str(body.get("consumerGroup") or ""), body.get("mode")
    call.require_admin(AdminOperation.ALTER_GROUP_CONFIGS, group)
    if mode != "PULL":
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"consume mode {mode} is not supported: PULL is"
        )
    return RemotingAnswer()
