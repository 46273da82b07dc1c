"""Every refusal that RabbitMQ 4.0 was asked for, in its own words: without sockets."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.amqp.control_methods import ChannelClose, ConnectionClose
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.methods import name_of
from tests.support.amqp.access import reader_and_guest
from tests.support.amqp.channels import Heard, QueueClient, QueueRoom
from tests.support.queues.streams import stores_for_streams

GOLDEN = Path(__file__).parents[3] / "golden" / "rabbitmq-4.0.5-replies.json"
CASES = [case for case in json.loads(GOLDEN.read_text())["cases"] if case["opened"]]
OTHERWISE = {
    "a frame without its end": "Erlang breaks the line in its text",
    "a body longer than its header says": "told as the specification has it",
    "a method that is none": "told in words, where RabbitMQ only ends the connection",
    "a class that is none": "told in words, where RabbitMQ only ends the connection",
    "a table cut short": "told in words, where RabbitMQ only ends the connection",
    "a table with a value of no kind": "told in words, where RabbitMQ only ends the connection",
    "a header whose properties are cut short": "told in words, not as a fault of ours",
    "a method that is none on channel 0": "told in words, where RabbitMQ only ends the connection",
    "a table in a table cut short": "told in words, where RabbitMQ only ends the connection",
    "an array cut short": "told in words, where RabbitMQ only ends the connection",
    "a header whose table is cut short": "told in words, not as a fault of ours",
    "a body of more than may ever be": "told before it comes",
    "a body of 512 MiB and a byte": "told before it comes",
    "basic.publish: on a channel that is not open": "told before its content comes",
    "basic.deliver: from a client": "told as what it is",
    "basic.consume: a stream from an offset that is none": "told in words, where RabbitMQ fails",
}


def reply(heard: Heard) -> dict[str, Any]:
    """Return what a method says, as it is kept of RabbitMQ."""
    method = heard.method
    if isinstance(method, ChannelClose | ConnectionClose):
        return {
            "closes": "channel" if isinstance(method, ChannelClose) else "connection",
            "code": method.reply_code,
            "text": method.reply_text,
            "class": method.class_id,
            "method": method.method_id,
        }
    return {"answers": name_of(IDS[type(method)]).replace("_", "-")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_is_refused_is_refused_in_rabbitmqs_words(case: dict[str, Any]) -> None:
    room = QueueRoom(make=stores_for_streams(), admission=reader_and_guest())
    clients: dict[int, QueueClient] = {}
    heard: list[Heard] = []
    for step in case["steps"]:
        number = step.get("connection", 0)
        if number not in clients:
            clients[number] = room.client(user=case["user"])
        earlier = [each for each in heard if "closes" in reply(each)]
        heard = earlier + clients[number].raw(bytes.fromhex(step["data"]))
    wanted = case["steps"][-1]["answered"]
    replies = [reply(each) for each in heard]
    told = [each for each in replies if "closes" in each or each.get("answers") == wanted]
    if case["reply"] == {"accepted": True}:
        assert bool(told) == (case["name"] in OTHERWISE), replies
        return
    differs = case["reply"] not in told[:1]
    assert differs == (case["name"] in OTHERWISE), (case["reply"], replies)
