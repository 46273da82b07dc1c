"""Settings of topics and groups are checked when they are set, as Kafka 4.3.1 checks them."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config.broker import load
from headrace.config.entity_settings import check_group_config
from headrace.config.topic_settings import parse_topic_configs
from headrace.model.errors import ConfigError

GOLDEN = json.loads((Path(__file__).parent / "kafka-4.3.1-settings.json").read_text())
"""`tried`: texts that were set for each key; `taken`: those Kafka accepted, by kind and key."""
BROKER, _ = load()
KEYS = [(kind, key) for kind, keys in GOLDEN["taken"].items() for key in keys]


def is_taken(kind: str, key: str, text: str) -> bool:
    try:
        if kind == "topic":
            parse_topic_configs({key: text})
        else:
            check_group_config({key: text}, BROKER)
    except ConfigError:
        return False
    return True


def differs_by_intent(key: str, text: str) -> bool:
    """Small segments are accepted with a warning; a negative size is refused, but for -1."""
    try:
        number = int(text)
    except ValueError:
        return False
    return (key == "segment.bytes" and 14 <= number < 1 << 20) or (
        key == "retention.bytes" and number < -1
    )


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_a_setting_is_accepted_and_refused_as_by_kafka(kind: str, key: str) -> None:
    taken: Any = GOLDEN["taken"][kind][key]
    for text in GOLDEN["tried"]:
        if not differs_by_intent(key, text):
            assert is_taken(kind, key, text) == (text in taken), text
