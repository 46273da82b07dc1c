"""A group's settings (SubscriptionGroupConfig), as requests, answers and the metadata store have
them."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.wire.rocketmq.fastjson import FastJson
from headrace.wire.rocketmq.requests import InvalidField

_INT32 = range(-(1 << 31), 1 << 31)


class GroupConfig(NamedTuple):
    """A group's settings, with the values of a group that no one has configured."""

    name: str
    consume_enabled: bool = True
    """Whether the group may pull."""
    broadcast_enabled: bool = True
    from_minimum_enabled: bool = True
    ordered: bool = False
    retries_max: int = 16
    """Deliveries of a message that was sent back, before it goes to the dead letter topic."""
    retry_queues: int = 1
    consume_timeout_minutes: int = 15
    broker_id: int = 0
    broker_id_when_slow: int = 1
    system_flag: int = 0
    notifies_members: bool = True
    """Whether members hear of changes of the group; false stops NOTIFY_CONSUMER_IDS_CHANGED."""
    retry_policy: FastJson = None
    attributes: FastJson = None


_BOOLEANS = {
    "consumeBroadcastEnable": "broadcast_enabled",
    "consumeEnable": "consume_enabled",
    "consumeFromMinEnable": "from_minimum_enabled",
    "consumeMessageOrderly": "ordered",
    "notifyConsumerIdsChangedEnable": "notifies_members",
}
_NUMBERS = {
    "brokerId": "broker_id",
    "consumeTimeoutMinute": "consume_timeout_minutes",
    "groupSysFlag": "system_flag",
    "retryMaxTimes": "retries_max",
    "retryQueueNums": "retry_queues",
    "whichBrokerWhenConsumeSlowly": "broker_id_when_slow",
}


def group_config(value: Mapping[str, FastJson]) -> GroupConfig:
    """Read settings; missing ones have their defaults. Raises InvalidField."""
    name = value.get("groupName")
    if not isinstance(name, str) or not name:
        raise InvalidField("groupName of the settings is missing or is not text")
    read: dict[str, FastJson] = {}
    for field, ours in _BOOLEANS.items():
        flag = value.get(field)
        if flag is not None:
            if not isinstance(flag, bool):
                raise InvalidField(f"{field} of the group's settings is not true or false")
            read[ours] = flag
    for field, ours in _NUMBERS.items():
        number = value.get(field)
        if number is not None:
            if type(number) is not int or number not in _INT32:
                raise InvalidField(f"{field} of the group's settings is not a number of 32 bits")
            read[ours] = number
    read["retry_policy"] = value.get("groupRetryPolicy")
    read["attributes"] = value.get("attributes")
    return GroupConfig._make({**GroupConfig(name)._asdict(), **read}.values())


def group_config_json(config: GroupConfig) -> dict[str, FastJson]:
    """Return settings as RocketMQ writes them, names in its order."""
    return {
        "attributes": config.attributes or {},
        "brokerId": config.broker_id,
        "consumeBroadcastEnable": config.broadcast_enabled,
        "consumeEnable": config.consume_enabled,
        "consumeFromMinEnable": config.from_minimum_enabled,
        "consumeMessageOrderly": config.ordered,
        "consumeTimeoutMinute": config.consume_timeout_minutes,
        "groupName": config.name,
        "groupRetryPolicy": config.retry_policy or {"type": "CUSTOMIZED"},
        "groupSysFlag": config.system_flag,
        "notifyConsumerIdsChangedEnable": config.notifies_members,
        "retryMaxTimes": config.retries_max,
        "retryQueueNums": config.retry_queues,
        "whichBrokerWhenConsumeSlowly": config.broker_id_when_slow,
    }
