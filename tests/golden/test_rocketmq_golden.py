"""Frames and stored messages that RocketMQ's clients and brokers wrote are ours byte for byte.

`rocketmq-5.5.0-frames.jsonl.gz` has recorded frames, at least one of each client, request and
direction; `rocketmq-5.5.0-stored.jsonl.gz` has messages out of a commit log (README.md).
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.rocketmq.batch_bodies import decode_batch, encode_batch
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand, decode_command, encode_command
from headrace.wire.rocketmq.delays import later_delivery
from headrace.wire.rocketmq.fastjson import Keyed, decode_body, encode_body
from headrace.wire.rocketmq.frames import RemotingFrame, Serialization, frame_at, frame_bytes
from headrace.wire.rocketmq.later_properties import (
    committed_properties,
    half_properties,
    held_properties,
    sent_back_properties,
)
from headrace.wire.rocketmq.message_ids import message_id
from headrace.wire.rocketmq.properties import decode_properties, without_property
from headrace.wire.rocketmq.requests import pull_request, send_request
from headrace.wire.rocketmq.sent_messages import plain_body
from headrace.wire.rocketmq.stored_messages import decode_messages, encode_message

GOLDEN = Path(__file__).parent
FRAMES = GOLDEN / "rocketmq-5.5.0-frames.jsonl.gz"
STORED = GOLDEN / "rocketmq-5.5.0-stored.jsonl.gz"
OTHER_WRITERS = {
    "go2.1": "Go writes the names in an order of its own",
    "cpp0.4.4": "C++ writes numbers, an empty remark and a final line feed",
    "ali-ons3.12": "Node.js writes numbers and the names in an order of its own",
    "raw": "the recorder's own client writes the names in an order of its own",
}
"""Clients whose JSON headers have the same values in other bytes, each with the difference."""
PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a golden file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def frames(path: Path = FRAMES) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield each recorded frame with its facts; without those that the recorder cut."""
    for entry in entries(path):
        if "raw_truncated" not in entry:
            yield entry, base64.b64decode(entry["raw"])


def cut(raw: bytes) -> tuple[RemotingFrame, RemotingCommand]:
    """Return a frame and its command."""
    assert frame_bytes(raw, 0, len(raw)) == len(raw)
    frame = frame_at(memoryview(raw), 0)
    return frame, decode_command(frame.serialization, frame.header, bytes(frame.body))


def has_own_bytes(entry: dict[str, Any]) -> bool:
    """Whether a frame was written by a client that OTHER_WRITERS names."""
    return bool(
        entry["dir"] == "C>S"
        and entry["serialize"] == "JSON"
        and entry["scenario"].startswith(tuple(OTHER_WRITERS))
    )


def test_each_recorded_frame_encodes_back_to_its_bytes() -> None:
    seen = Counter[str]()
    for entry, raw in frames():
        frame, command = cut(raw)
        again = b"".join(encode_command(command, frame.serialization))
        if has_own_bytes(entry):
            assert cut(again)[1] == command, entry["n"]
            seen["other"] += 1
        else:
            assert again == raw, entry["n"]
            seen[frame.serialization.name] += 1
    assert seen["JSON"] > 300
    assert seen["BINARY"] > 50
    assert seen["other"] > 50


def test_a_decoded_header_is_as_recorded() -> None:
    for entry, raw in frames():
        command = cut(raw)[1]
        recorded = entry["header"]
        assert (command.code, command.opaque, command.flag) == (
            recorded["code"], recorded["opaque"], recorded["flag"],
        )  # fmt: skip
        assert command.is_response == entry["kind"].startswith("response")
        assert command.is_one_way == (entry["kind"] == "oneway")
        assert len(command.body) == entry["body_len"]
        for name, value in (recorded.get("extFields") or {}).items():
            text = value if isinstance(value, str) else json.dumps(value)
            assert (command.fields or {})[name] == text


def test_recorded_answers_are_json_whatever_the_request_used() -> None:
    answers = [cut(raw)[0] for entry, raw in frames() if entry["kind"].startswith("response")]
    assert {frame.serialization for frame in answers} == {Serialization.JSON}


def test_each_recorded_json_body_encodes_back_to_its_bytes() -> None:
    keyed = 0
    for entry, raw in frames():
        body = cut(raw)[1].body
        if bytes(body[:1]) not in (b"{", b"[") or b'": ' in bytes(body) or has_own_bytes(entry):
            continue  # spaces: the recorder's own client
        if entry["scenario"].endswith("bad-json"):
            continue
        value = decode_body(body)
        assert encode_body(value) == body, entry["n"]
        keyed += isinstance(value, Keyed) or b"{{" in bytes(body) or b":{0:" in bytes(body)
    assert keyed >= 5, "bodies that no JSON parser reads are among them"


def test_each_recorded_pull_encodes_back_to_its_bytes() -> None:
    pulled = 0
    for entry, raw in frames():
        if entry["request"] not in ("PULL_MESSAGE", "LITE_PULL_MESSAGE") or not entry["body_len"]:
            continue
        body = bytes(cut(raw)[1].body)
        messages = list(decode_messages(body))
        assert b"".join(map(encode_message, messages)) == body, entry["n"]
        pulled += len(messages)
    assert pulled > 100


def test_each_recorded_batch_encodes_back_to_its_bytes() -> None:
    batches = 0
    for entry, raw in frames():
        command = cut(raw)[1]
        if entry["kind"] != "response SUCCESS" and command.code == RequestCode.SEND_BATCH_MESSAGE:
            assert encode_batch(decode_batch(command.body)) == command.body
            batches += 1
    assert batches >= 4


def test_each_recorded_send_and_pull_has_its_fields() -> None:
    seen = Counter[int]()
    for entry, raw in frames():
        command = cut(raw)[1]
        if command.is_response or entry["scenario"].startswith("raw"):
            continue  # the recorder's own client leaves fields out on purpose
        recorded: dict[str, Any] = entry["header"].get("extFields") or {}
        letters = "b" in recorded
        if command.code in SENDS:
            sent = send_request(command)
            assert (sent.producer_group, sent.topic, sent.queue_id, sent.born_at_ms) == (
                recorded["a" if letters else "producerGroup"],
                recorded["b" if letters else "topic"],
                int(recorded["e" if letters else "queueId"]),
                int(recorded["g" if letters else "bornTimestamp"]),
            )
            assert sent.is_batch == (command.code == RequestCode.SEND_BATCH_MESSAGE)
        elif command.code in PULLS:
            pull = pull_request(command)
            assert (
                pull.consumer_group, pull.topic, pull.queue_id, pull.queue_offset,
                pull.messages_max, pull.system_flag, pull.commit_offset, pull.suspend_ms,
                pull.subscription_version,
            ) == (
                recorded["consumerGroup"], recorded["topic"], int(recorded["queueId"]),
                int(recorded["queueOffset"]), int(recorded["maxMsgNums"]),
                int(recorded["sysFlag"]), int(recorded["commitOffset"]),
                int(recorded["suspendTimeoutMillis"]), int(recorded["subVersion"]),
            )  # fmt: skip
            assert pull.subscription == recorded.get("subscription", "")
            assert pull.expression_type == recorded.get("expressionType", "TAG")
        else:
            continue
        seen[command.code] += 1
    assert set(seen) == {*SENDS, *PULLS}


@pytest.mark.parametrize("kind", [0x1, 0x101, 0x201, 0x301])
def test_each_recorded_compression_is_read(kind: int) -> None:
    found = 0
    for entry in entries(STORED):
        if entry["sysFlag"] & 0x701 == kind:
            (message,) = decode_messages(base64.b64decode(entry["raw"]))
            plain = plain_body(message.body, message.system_flag)
            assert len(plain) > len(message.body)
            found += 1
    if kind != 0x1:
        assert found


def test_each_stored_message_is_as_recorded_and_encodes_back() -> None:
    count = 0
    for entry in entries(STORED):
        raw = base64.b64decode(entry["raw"])
        (message,) = decode_messages(raw)
        assert encode_message(message) == raw
        assert message.topic.decode() == entry["topic"]
        assert decode_properties(message.properties) == entry["properties"]
        assert message_id(message.store_host, message.physical_offset) == entry["offsetMsgId"]
        assert (
            message.queue_id, message.queue_offset, message.physical_offset, message.flag,
            message.system_flag, message.born_at_ms, message.stored_at_ms,
            message.reconsume_times, message.prepared_offset,
        ) == (
            entry["queueId"], entry["queueOffset"], entry["physicOffset"], entry["flag"],
            entry["sysFlag"], entry["bornTimestamp"], entry["storeTimestamp"],
            entry["reconsumeTimes"], entry["preparedTransactionOffset"],
        )  # fmt: skip
        count += 1
    assert count > 100


# Messages that are delivered later

BROKERS = ("MSG_REGION", "CLUSTER", "TRACE_ON")
"""Properties that pulled messages get, and no stored one has here."""


def stored(topic: str, body: str) -> dict[str, Any]:
    """Return the last recorded message of a topic with this body."""
    found = [each for each in entries(STORED) if each["topic"] == topic and each["body"] == body]
    return found[-1]


def own(message: dict[str, Any]) -> bytes:
    """Return a recorded message's properties without those that the broker adds to all."""
    (decoded,) = decode_messages(base64.b64decode(message["raw"]))
    properties = decoded.properties
    for name in BROKERS:
        properties = without_property(properties, name.encode())
    return properties


def test_a_message_sent_back_has_the_recorded_properties() -> None:
    group = "CG_retryScjava55json2_"
    first = stored("Scjava55json2_retry", "poison")
    retried = stored(f"%RETRY%{group}", "poison")
    letter = stored(f"%DLQ%{group}", "poison")
    made = sent_back_properties(own(first), first["topic"], first["offsetMsgId"], 1)
    made = held_properties(made, f"%RETRY%{group}", 0)
    assert decode_properties(made) == decode_properties(own(retried))
    assert made.startswith(without_property(own(first), b"WAIT"))
    made = sent_back_properties(own(retried), retried["topic"], retried["offsetMsgId"], 0)
    assert decode_properties(made) == decode_properties(own(letter))


def test_a_delayed_message_has_the_recorded_properties() -> None:
    level = stored("Scjava55json_delay", "level1")
    sent = without_property(without_property(own(level), b"REAL_TOPIC"), b"REAL_QID")
    later = later_delivery(sent, 0, 0)
    assert later is not None
    assert later.due_ms == 1000
    made = held_properties(later.properties, "Scjava55json_delay", level["queueId"])
    assert decode_properties(made) == decode_properties(own(level))
    timer = stored("Scjava55json_delay", "timer")
    added = ("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID")
    sent = own(timer)
    for name in added:
        sent = without_property(sent, name.encode())
    later = later_delivery(sent, timer["bornTimestamp"], 3000)
    assert later is not None
    made = held_properties(later.properties, "Scjava55json_delay", timer["queueId"])
    # Recorded: rounded to a second, and two times that RocketMQ's wheel adds.
    assert decode_properties(made).keys() == decode_properties(own(timer)).keys() - {
        "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS",
    }  # fmt: skip
    assert 0 <= later.due_ms - int(decode_properties(own(timer))["TIMER_OUT_MS"]) < 1000


def test_a_message_of_a_transaction_has_the_recorded_properties() -> None:
    half = stored("RMQ_SYS_TRANS_HALF_TOPIC", "commit")
    committed = stored("Scjava55json_tx", "commit")
    assert decode_properties(committed_properties(own(half), 0)) == decode_properties(
        own(committed)
    )
    sent = own(committed)
    sent = without_property(sent, b"__transactionId__")
    made = held_properties(half_properties(sent), "Scjava55json_tx", committed["queueId"])
    assert decode_properties(made) == decode_properties(own(half))
    asked = stored("Scjava55json_tx", "unknown")
    sent = without_property(own(asked), b"TRANSACTION_CHECK_TIMES")
    assert decode_properties(committed_properties(sent, 2)) == decode_properties(own(asked))
