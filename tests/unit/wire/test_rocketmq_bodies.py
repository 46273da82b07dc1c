"""Bodies that are not JSON, names of topics, and the fields of requests."""

import pytest

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import DEPTH_MAX, FastJson, Keyed, decode_body, encode_body
from headrace.wire.rocketmq.requests import (
    Fields,
    InvalidField,
    PullFlag,
    offset_request,
    pull_request,
    queue_request,
    send_request,
)
from headrace.wire.rocketmq.stored_messages import SystemFlag
from headrace.wire.rocketmq.topic_names import check_name, kafka_name, rocketmq_name


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"0":"a"}', {"0": "a"}),
        (b'{0:"a",1:"b"}', Keyed(((0, "a"), (1, "b")))),
        (
            b'{"t":{{"queueId":0}:{"offset":5},{"queueId":1}:{}}}',
            {"t": Keyed((({"queueId": 0}, {"offset": 5}), ({"queueId": 1}, {})))},
        ),
        (b'[1,-2,true,false,null,"x",1.5]', [1, -2, True, False, None, "x", 1.5]),
        ('"größe \\u0001\\n\\""'.encode(), 'größe \x01\n"'),
        (b"{}", {}),
        (b"[]", []),
    ],
)
def test_a_body_returns_whether_it_is_json_or_not(body: bytes, value: FastJson) -> None:
    assert decode_body(body) == value
    assert encode_body(value) == body


def test_spaces_between_the_parts_of_a_body_do_not_count() -> None:
    assert decode_body(b' { "a" : [ 1 , { 0 : 2 } ] ,\r\n"b":{ } }\t') == {
        "a": [1, Keyed(((0, 2),))],
        "b": {},
    }


def test_the_last_of_equal_names_counts() -> None:
    assert decode_body(b'{"a":1,"a":2}') == {"a": 2}


def test_a_boolean_is_not_written_as_a_number() -> None:
    assert encode_body({"a": True, "b": 1, "c": False}) == b'{"a":true,"b":1,"c":false}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"{nope",
        b"nope",
        b'"open',
        b'"\x01"',
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b"[1,]",
        b"[1 2]",
        b"{1 2}",
        b"01x",
        b"1.",
        b"-",
        b"truex",
        b"1 1",
        b"\xff",
        b"9" * 20,
        b"NaN",
    ],
)
def test_a_body_that_is_neither_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_body(body)


@pytest.mark.parametrize("opening", [b"[", b"{", b'{"a":', b"{{"])
def test_a_body_is_nested_to_a_depth_and_no_deeper(opening: bytes) -> None:
    assert decode_body(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    with pytest.raises(Malformed, match="nested deeper"):
        decode_body(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))
    with pytest.raises(Malformed):
        decode_body(opening * 100_000)


# Names


@pytest.mark.parametrize(
    ("topic", "kafka"),
    [
        ("orders", "orders"),
        ("a_b-C9", "a_b-C9"),
        ("INST%orders", "INST.25orders"),
        ("a|b", "a.7Cb"),
        ("%RETRY%billing", "__rocketmq..25RETRY.25billing"),
        ("%DLQ%a%b", "__rocketmq..25DLQ.25a.25b"),
        ("__rocketmq%x", "__rocketmq.25x"),
        ("|x", ".7Cx"),
        ("RMQ_SYS_TRACE_TOPIC", "__rocketmq.RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_x%", "__rocketmq.rmq_sys_x.25"),
        ("RMQ_SYS", "RMQ_SYS"),
    ],
)
def test_a_topic_returns_from_its_kafka_name(topic: str, kafka: str) -> None:
    assert kafka_name(topic) == kafka
    assert rocketmq_name(kafka) == topic


@pytest.mark.parametrize(
    "kafka",
    [
        "a.b",
        "a.",
        ".",
        ".25x",
        "__rocketmq.delays",
        "__rocketmq.x.25",
        "a.7c",
        "__amqp.q",
        "RMQ_SYS_TRACE_TOPIC",
        "__rocketmq.orders",
        "__rocketmq.half",
    ],
)
def test_other_kafka_topics_have_no_rocketmq_name(kafka: str) -> None:
    assert rocketmq_name(kafka) is None


@pytest.mark.parametrize("topic", ["", "a.b", "a b", "größe", "%" * 80, "a\n"])
def test_a_topic_that_kafka_cannot_name_is_refused(topic: str) -> None:
    with pytest.raises(Malformed, match="no Kafka name"):
        kafka_name(topic)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 128, "a\n"])
def test_a_name_out_of_rocketmqs_rule_is_refused(name: str) -> None:
    check_name("%RETRY%a|b_-9", 127, "topic")
    check_name("x" * 127, 127, "topic")
    with pytest.raises(Malformed, match="specified topic"):
        check_name(name, 127, "topic")


# Fields

SEND = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "2", "g": "1795860860391",
    "h": "7", "i": "TAGS\x01A\x02", "j": "1", "k": "false", "l": "16", "m": "false",
    "n": "broker-a",
}  # fmt: skip
WORDS = {
    "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "3", "sysFlag": "2", "bornTimestamp": "1795860860391", "flag": "7",
    "properties": "TAGS\x01A\x02", "reconsumeTimes": "1", "unitMode": "0",
    "maxReconsumeTimes": "16", "batch": "0",
}  # fmt: skip


def command(code: int, fields: dict[str, str] | None) -> RemotingCommand:
    """Return a request."""
    return RemotingCommand(code, 1, fields=fields)


def test_a_send_has_the_same_fields_by_letters_and_by_words() -> None:
    by_letters = send_request(command(RequestCode.SEND_MESSAGE_V2, SEND))
    assert by_letters == send_request(command(RequestCode.SEND_MESSAGE, WORDS))
    assert by_letters == (
        "PG", "T", "TBW102", 4, 3, 2, 1795860860391, 7, b"TAGS\x01A\x02", 1, 16,
        False,
    )  # fmt: skip


@pytest.mark.parametrize("value", ["true", "1"])
def test_a_batch_is_named_by_its_code_or_its_field(value: str) -> None:
    assert send_request(command(RequestCode.SEND_BATCH_MESSAGE, SEND)).is_batch
    assert send_request(command(RequestCode.SEND_MESSAGE_V2, SEND | {"m": value})).is_batch
    assert send_request(command(RequestCode.SEND_MESSAGE, WORDS | {"batch": value})).is_batch


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_send_without_a_field_is_invalid(name: str) -> None:
    fields = {key: value for key, value in SEND.items() if key != name}
    with pytest.raises(InvalidField, match=f"no field {name}"):
        send_request(command(RequestCode.SEND_MESSAGE_V2, fields))


def test_a_send_without_properties_has_none() -> None:
    fields = {key: value for key, value in SEND.items() if key not in ("i", "j", "m")}
    sent = send_request(command(RequestCode.SEND_MESSAGE_V2, fields))
    assert (sent.properties, sent.reconsume_times, sent.is_batch) == (b"", 0, False)


@pytest.mark.parametrize(
    "raw", ["seven", "1.5", "+1", " 1", "--1", "٣", "9" * 21, "2147483648", ""]
)
def test_a_number_that_is_none_is_invalid(raw: str) -> None:
    with pytest.raises(InvalidField):
        send_request(command(RequestCode.SEND_MESSAGE_V2, SEND | {"e": raw}))


def test_numbers_are_read_to_the_ends_of_their_range() -> None:
    fields = Fields(command(1, {"a": "-2147483648", "b": "9223372036854775807"}))
    assert (fields.number("a"), fields.long("b")) == (-(1 << 31), (1 << 63) - 1)
    with pytest.raises(InvalidField, match="out of range"):
        fields.number("b")


def test_a_request_without_fields_is_invalid_where_one_is_needed() -> None:
    for read in (send_request, pull_request, queue_request, offset_request):
        with pytest.raises(InvalidField):
            read(command(RequestCode.SEND_MESSAGE_V2, None))


def test_a_pull_of_an_old_client_has_defaults() -> None:
    fields = {
        "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "5",
        "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000",
        "subVersion": "1795869247697",
    }  # fmt: skip
    pull = pull_request(command(11, fields))
    assert (pull.subscription, pull.expression_type, pull.bytes_max) == ("", "TAG", (1 << 31) - 1)
    assert (pull.queue_offset, pull.suspend_ms, pull.system_flag) == (5, 15000, 6)
    for name in fields:
        with pytest.raises(InvalidField):
            pull_request(command(11, {key: fields[key] for key in fields if key != name}))


def test_a_queue_is_named_by_topic_and_id() -> None:
    fields = {"queueId": "2", "topic": "T"}
    assert queue_request(command(30, fields)) == ("T", 2)


def test_flags_of_pulls_and_messages_are_rocketmqs() -> None:
    assert (PullFlag.COMMIT_OFFSET, PullFlag.SUSPEND, PullFlag.SUBSCRIPTION) == (1, 2, 4)
    assert (PullFlag.CLASS_FILTER, PullFlag.LITE_PULL) == (8, 16)
    flags = SystemFlag
    assert [flags.COMPRESSED, flags.MULTIPLE_TAGS, flags.PREPARED, flags.COMMITTED] == [1, 2, 4, 8]
    assert flags.ROLLED_BACK == 12


def test_an_update_needs_an_offset_and_a_query_does_not() -> None:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "2"}
    assert offset_request(command(14, fields)) == ("G", "T", 2, -1, True)
    with pytest.raises(InvalidField, match="commitOffset"):
        offset_request(command(15, fields))
    assert offset_request(command(15, fields | {"commitOffset": "-1"})).commit_offset == -1
    assert not offset_request(command(14, fields | {"setZeroIfNotFound": "false"})).zero_if_missing
