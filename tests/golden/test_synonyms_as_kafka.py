"""DescribeConfigs answers each topic key with the value, source and synonyms of Kafka 4.3.1."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config.broker import load
from headrace.config.descriptions import DynamicConfig

CASES: Any = json.loads((Path(__file__).parent / "kafka-4.3.1-synonyms.json").read_text())
"""By the broker's properties, what was altered for it at run time, and a topic's own settings."""


@pytest.mark.parametrize("case", CASES, ids=["defaults", "properties", "altered", "minutes"])
def test_every_topic_key_is_described_as_by_kafka(case: Any) -> None:
    properties = "\n".join(f"{name}={text}" for name, text in case["properties"].items())
    dynamic = DynamicConfig(load(properties)[0], own=case["dynamic"])
    described = {
        entry.name: [entry.value, entry.source, [[*synonym] for synonym in entry.synonyms]]
        for entry in dynamic.describe_topic(case["topic"])
    }
    assert described == case["entries"]
