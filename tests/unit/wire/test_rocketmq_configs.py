"""Settings of groups and topics as bytes: RocketMQ's, and those in the metadata store."""

import pytest

from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import FastJson, decode_body, encode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config, group_config_json
from headrace.wire.rocketmq.requests import Fields, InvalidField
from headrace.wire.rocketmq.topic_configs import (
    ALL_QUEUES,
    TopicConfig,
    asked_topic_config,
    changed_topic_config,
    stored_topic_config,
    stored_topic_config_json,
    topic_config_json,
)

RECORDED_GROUP = (
    b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    b'"groupName":"G","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":2,"retryQueueNums":1,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)
RECORDED_TOPIC = (
    b'{"attributes":{},"order":false,"perm":6,"readQueueNums":2,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"T","topicSysFlag":0,"writeQueueNums":2}'
)


def object_of(body: bytes) -> dict[str, FastJson]:
    """Return a body that is an object."""
    value = decode_body(body)
    assert isinstance(value, dict)
    return value


def asked(**fields: object) -> TopicConfig:
    """Return what request 17 asks for."""
    texts = {"readQueueNums": "4", "writeQueueNums": "4"} | {
        name: str(value) for name, value in fields.items()
    }
    return asked_topic_config(Fields(RemotingCommand(RequestCode(17), 1, 0, texts)))


def test_settings_of_a_group_are_written_as_rocketmq_writes_them() -> None:
    config = GroupConfig("G", retries_max=2)
    assert encode_body(group_config_json(config)) == RECORDED_GROUP
    read = group_config(object_of(RECORDED_GROUP))
    assert encode_body(group_config_json(read)) == RECORDED_GROUP


@pytest.mark.parametrize(
    ("field", "value", "ours"),
    [
        ("consumeEnable", False, {"consume_enabled": False}),
        ("consumeBroadcastEnable", False, {"broadcast_enabled": False}),
        ("consumeFromMinEnable", False, {"from_minimum_enabled": False}),
        ("consumeMessageOrderly", True, {"ordered": True}),
        ("notifyConsumerIdsChangedEnable", False, {"notifies_members": False}),
        ("retryMaxTimes", 3, {"retries_max": 3}),
        ("retryQueueNums", 2, {"retry_queues": 2}),
        ("consumeTimeoutMinute", 7, {"consume_timeout_minutes": 7}),
        ("brokerId", 4, {"broker_id": 4}),
        ("whichBrokerWhenConsumeSlowly", 5, {"broker_id_when_slow": 5}),
        ("groupSysFlag", 6, {"system_flag": 6}),
        ("attributes", {"a": "b"}, {"attributes": {"a": "b"}}),
        ("groupRetryPolicy", {"type": "X"}, {"retry_policy": {"type": "X"}}),
    ],
)
def test_each_setting_of_a_group_is_read_and_written(
    field: str, value: FastJson, ours: dict[str, object]
) -> None:
    config = group_config({"groupName": "G", field: value})
    assert config._asdict() == GroupConfig("G")._asdict() | ours
    assert group_config_json(config)[field] == value


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"groupName": ""}, {"groupName": 5}, {"groupName": "G", "consumeEnable": 1},
        {"groupName": "G", "retryMaxTimes": "2"}, {"groupName": "G", "retryMaxTimes": True},
        {"groupName": "G", "brokerId": 1 << 40},
    ],
)  # fmt: skip
def test_settings_of_a_group_of_a_wrong_type_are_refused(wrong: dict[str, FastJson]) -> None:
    with pytest.raises(InvalidField):
        group_config(wrong)


def test_settings_of_a_topic_are_written_as_rocketmq_writes_them() -> None:
    assert encode_body(topic_config_json("T", TopicConfig(), 2)) == RECORDED_TOPIC
    shown = topic_config_json("T", TopicConfig(6, 3, 4, ordered=True), 8)
    assert (shown["readQueueNums"], shown["writeQueueNums"], shown["perm"]) == (6, 3, 4)
    assert shown["order"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"readQueueNums": 0}, {"writeQueueNums": 0}, {"readQueueNums": -1}, {"perm": 8},
        {"perm": -1}, {"perm": "x"}, {"writeQueueNums": ""},
    ],
)  # fmt: skip
def test_a_topic_without_queues_or_of_another_permission_is_refused(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(InvalidField):
        asked(**wrong)


def test_numbers_of_queues_follow_the_partitions_until_they_are_lower() -> None:
    all_of_them = changed_topic_config(TopicConfig(), asked(), 4, 100)
    assert (all_of_them.read_queues, all_of_them.write_queues) == (ALL_QUEUES, ALL_QUEUES)
    assert (all_of_them.read(6), all_of_them.written(6)) == (6, 6), "Kafka has added two"
    fewer = changed_topic_config(all_of_them, asked(readQueueNums=4, writeQueueNums=3), 4, 100)
    assert (fewer.read(4), fewer.written(4)) == (4, 3)
    assert (fewer.read(6), fewer.written(6)) == (6, 3)
    assert (fewer.read(2), fewer.written(2)) == (2, 2)


def test_a_queue_that_was_hidden_is_added_when_it_is_shown_again() -> None:
    hidden = changed_topic_config(TopicConfig(), asked(readQueueNums=2), 6, 100)
    assert (hidden.read(6), hidden.grown) == (2, ())
    shown = changed_topic_config(hidden, asked(readQueueNums=4), 6, 200)
    assert [shown.added_ms(queue) for queue in range(6)] == [0, 0, 200, 200, 200, 200]
    more = changed_topic_config(shown, asked(readQueueNums=6), 6, 300)
    assert [more.added_ms(queue) for queue in range(6)] == [0, 0, 200, 200, 300, 300]
    same = changed_topic_config(more, asked(readQueueNums=6, writeQueueNums=1), 6, 400)
    assert same.grown == more.grown
    less = changed_topic_config(same, asked(readQueueNums=1), 6, 500)
    again = changed_topic_config(less, asked(readQueueNums=6), 6, 600)
    assert [again.added_ms(queue) for queue in range(3)] == [0, 600, 600]
    assert again.grown == ((1, 600),)


def test_attributes_are_added_and_removed_by_their_signs() -> None:
    first = changed_topic_config(TopicConfig(), asked(attributes="+message.type=FIFO,+a=b"), 4, 1)
    assert first.attributes == {"message.type": "FIFO", "a": "b"}
    second = changed_topic_config(first, asked(attributes="-a,-c,+message.type=DELAY"), 4, 1)
    assert second.attributes == {"message.type": "DELAY"}
    assert changed_topic_config(second, asked(), 4, 1).attributes == second.attributes


def test_settings_of_a_topic_are_stored_whole() -> None:
    config = TopicConfig(
        3, ALL_QUEUES, 4, "MULTI_TAG", 2, True, {"message.type": "FIFO"}, ((2, 100), (4, 200))
    )
    body = encode_body(stored_topic_config_json(config))
    assert stored_topic_config(object_of(body)) == config
    assert stored_topic_config({}) == TopicConfig()


@pytest.mark.parametrize("wrong", [{"readQueueNums": "3"}, {"writeQueueNums": -1}, {"perm": 9}])
def test_stored_settings_of_a_wrong_type_are_refused(wrong: dict[str, FastJson]) -> None:
    with pytest.raises(InvalidField):
        stored_topic_config(wrong)
