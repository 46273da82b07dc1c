"""What RabbitMQ answers to what it refuses, as it is kept for our broker's tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.amqp.reply_codes import ReplyCode

FOUND = json.loads((Path(__file__).parent / "rabbitmq-4.0.5-replies.json").read_text())
CASES: list[dict[str, Any]] = FOUND["cases"]
KINDS = {"closes", "answers", "accepted", "silent"}


def test_every_case_has_a_name_of_its_own_steps_and_a_reply() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) > 250
    for case in CASES:
        assert case["steps"], case["name"]
        assert all(bytes.fromhex(step["data"]) for step in case["steps"]), case["name"]
        assert KINDS & {*case["reply"]}, case["name"]
        assert case["reply"].get("closes") in {None, "channel", "connection", "socket"}


def test_only_the_last_step_of_an_opened_case_is_refused() -> None:
    """What is not answered before is a publish, a settlement, or a handshake's tune-ok."""
    for case in CASES:
        for step in case["steps"][:-1]:
            asynchronous = {
                "basic.publish", "basic.ack", "basic.nack", "basic.reject", "connection.tune-ok",
            }  # fmt: skip
            assert step["answered"] or step["name"] in asynchronous, case["name"]


@pytest.mark.parametrize(
    "reply", [case["reply"] for case in CASES if "code" in case["reply"]],
    ids=[case["name"] for case in CASES if "code" in case["reply"]],
)  # fmt: skip
def test_a_text_begins_with_the_name_of_its_code(reply: dict[str, Any]) -> None:
    name = ReplyCode(reply["code"]).name
    assert reply["text"] == name or reply["text"].startswith(f"{name} - ")
