"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): an operator sets a group's settings.

Consumption is switched off and on by `consumeEnable`: pulls of a group that is switched off are
answered NO_PERMISSION, parked ones at once. Its offsets stay, and can be reset meanwhile.
"""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.groups import body_object
from headrace.model.errors import ApiError, Malformed
from headrace.operations.permissions import AdminOperation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config
from headrace.wire.rocketmq.topic_names import GROUP_CHARACTERS_MAX, check_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall


def update_group(call: "RemotingCall") -> None:
    """Answer UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) once the settings are stored."""
    config = group_config(body_object(call))
    try:
        check_name(config.name, GROUP_CHARACTERS_MAX, "group")
    except Malformed as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    by = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.name
    call.broker.operation(call.identity, by).require(
        AdminOperation.ALTER_GROUP_CONFIGS, config.name
    )
    call.work(_updated(call, config))


async def _updated(call: "RemotingCall", config: GroupConfig) -> RemotingAnswer:
    broker, failed = call.broker, None
    try:
        await broker.configs.groups.put(config.name, config)
    except ApiError as error:
        failed = error
    context = broker.operation(
        call.identity, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.name
    )
    context.changed(failed, {"group": config.name, "consumeEnable": config.consume_enabled})
    if failed is not None:
        raise failed
    if not config.consume_enabled:
        broker.parked.wake(config.name)
    return RemotingAnswer()
