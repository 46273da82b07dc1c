"""What brokers say to each other has Kafka 3.9's bytes, in every version there was."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.wire.kafka.api import OWN_KEYS_FROM, ApiKey, is_flexible
from headrace.wire.kafka.peer_messages import PEER_MESSAGES, PEER_VERSIONS
from headrace.wire.schema import MessageSchema

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "peer-messages-kafka-3.9.json").read_text("utf-8")
)
UUIDS = {"topicId"}


def message_of(case: dict[str, Any]) -> MessageSchema:
    messages = PEER_MESSAGES[ApiKey[case["api"].upper()]]
    message: MessageSchema = getattr(messages, case["part"])
    return message


def of_json(fields: Any) -> Any:
    """Return fields as the tables have them: uuids are bytes."""
    if isinstance(fields, list):
        return [of_json(value) for value in fields]
    if isinstance(fields, dict):
        return {
            name: bytes.fromhex(value) if name in UUIDS else of_json(value)
            for name, value in fields.items()
        }
    return fields


def without_defaults(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the one tagged field at its default, which is not read."""
    return {name: value for name, value in fields.items() if (name, value) != ("type", 0)}


def ident(case: dict[str, Any]) -> str:
    return f"{case['api']}-v{case['version']}-{case['part']}"


@pytest.mark.parametrize("case", GOLDEN, ids=ident)
def test_messages_are_written_and_read_as_kafka_3_9_has_them(case: dict[str, Any]) -> None:
    message, version, data = message_of(case), case["version"], bytes.fromhex(case["hex"])
    fields = of_json(case["fields"])
    assert message.encode(fields, version) == data
    read = message.decode(data, version)
    if case["api"] == "update_metadata":
        read, fields = without_defaults(read), without_defaults(fields)
    assert read == fields


def test_a_tagged_field_that_a_version_does_not_have_is_not_written() -> None:
    message = PEER_MESSAGES[ApiKey.UPDATE_METADATA].request
    fields = {
        "controllerId": 1, "isKRaftController": False, "controllerEpoch": 2, "brokerEpoch": 3,
        "topicStates": [], "liveBrokers": [],
    }  # fmt: skip
    assert message.encode({**fields, "type": 2}, 7) == message.encode(fields, 7)
    assert message.encode({**fields, "type": 2}, 8) != message.encode(fields, 8)


def test_golden_bytes_are_there_for_every_version() -> None:
    there = {(case["api"], case["part"], case["version"]) for case in GOLDEN}
    of_kafka = {key: each for key, each in PEER_MESSAGES.items() if key < OWN_KEYS_FROM}
    for key, messages in of_kafka.items():
        for part, message in messages._asdict().items():
            for version in range(message.latest + 1):
                assert (key.name.lower(), part, version) in there
                if version >= PEER_VERSIONS[key][0]:
                    assert is_flexible(key, version) == (version >= message.flexible_from)


def test_a_version_that_never_was_is_malformed() -> None:
    for messages in PEER_MESSAGES.values():
        for message in messages:
            with pytest.raises(Malformed, match="not known"):
                message.decode(b"", message.latest + 1)


def test_what_is_spoken_goes_up_to_the_newest() -> None:
    assert PEER_VERSIONS.keys() == PEER_MESSAGES.keys()
    for key, (_, newest) in PEER_VERSIONS.items():
        assert newest == PEER_MESSAGES[key].request.latest == PEER_MESSAGES[key].response.latest


@pytest.mark.parametrize("case", GOLDEN[::2], ids=ident)
@settings(max_examples=8, derandomize=True)
@given(data=st.data())
def test_a_message_that_was_cut_or_changed_is_malformed_or_another(
    case: dict[str, Any], data: st.DataObject
) -> None:
    whole = bytearray(bytes.fromhex(case["hex"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    message, version = message_of(case), case["version"]
    for hostile in (bytes(whole), bytes(whole[:cut])):
        with contextlib.suppress(Malformed):
            message.decode(hostile, version)
