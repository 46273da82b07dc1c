"""Topic settings over the broker's."""

import pytest

from headrace.config.broker import load
from headrace.config.definitions import TOPIC
from headrace.config.descriptions import DynamicConfig
from headrace.config.keys.topic import OF_REPLICAS
from headrace.config.log_config import LogConfig
from headrace.config.topic_settings import (
    parse_topic_config,
    parse_topic_configs,
    sound_topic_configs,
    topic_log_config,
)
from headrace.model.errors import ConfigError


def test_without_settings_a_topic_is_as_kafka_makes_it() -> None:
    config, _ = load()
    assert topic_log_config(config, {}) == LogConfig()


def test_a_topic_takes_the_brokers_values_unless_it_has_its_own() -> None:
    config, _ = load("log.retention.minutes=1\nlog.segment.bytes=2000000\nmessage.max.bytes=77")
    made = topic_log_config(config, {"segment.bytes": "1000", "cleanup.policy": "compact, delete"})
    assert made.retention_ms == 60_000
    assert made.segment_bytes == 1000
    assert made.max_message_bytes == 77
    assert made.cleanup_policy == frozenset({"compact", "delete"})
    assert made.compacted


def test_every_setting_in_use_arrives_in_the_log() -> None:
    config, _ = load()
    texts = {
        "boolean": "true",
        "list": "compact",
        "double": "0.25",
        "long": "123456",
        "int": "4321",
    }
    plain = topic_log_config(config, {})
    for name, definition in TOPIC.items():
        if not definition.in_use or definition in OF_REPLICAS:
            continue
        text = texts.get(definition.kind.name.lower(), "LogAppendTime")
        if name == "compression.type":
            text = "zstd"
        elif name.startswith("compression."):
            text = "7"
        assert topic_log_config(config, {name: text}) != plain, name


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "soon", "whole number"),
        ("retention.ms", "-2", "at least -1"),
        ("segment.bytes", "13", "at least 14"),
        ("compression.gzip.level", "0", "1 to 9, or -1"),
        ("compression.gzip.level", "-00", "1 to 9, or -1"),
        ("remote.storage.enable", "true", "one of false"),
        ("log.retention.ms", "1", "did you mean retention.ms?"),
        ("retention.msec", "1", "did you mean retention.ms?"),
        ("leader.replication.throttled.replicas", "1", "must be * or a list of PARTITION:BROKER"),
        ("leader.replication.throttled.replicas", "1:2,x:3", "must be * or a list"),
        ("follower.replication.throttled.replicas", "*,1:2", "must be * or a list"),
        ("message.format.version", "2.0", "no such topic key"),
    ],
)
def test_it_is_refused_in_one_line(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_topic_config(name, text)
    assert str(caught.value).startswith(f"{name}={text}: ")
    assert reason in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_topic_configs({"a": "1", "retention.ms": "x", "segment.ms": "5"})
    assert len(str(caught.value).splitlines()) == 2


def test_lags_must_agree() -> None:
    with pytest.raises(ConfigError, match="more than max"):
        parse_topic_configs({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})


def test_stored_settings_that_are_refused_now_leave_the_others_in_force() -> None:
    stored = {
        "retention.ms": "-1",
        "compression.gzip.level": "0",
        "min.compaction.lag.ms": "2",
        "max.compaction.lag.ms": "1",
        "segment.ms": "5",
    }
    sound, problems = sound_topic_configs(stored)
    assert sound == {"retention.ms": "-1", "min.compaction.lag.ms": "2", "segment.ms": "5"}
    assert [problem.partition("=")[0] for problem in problems] == [
        "compression.gzip.level",
        "min.compaction.lag.ms",
    ]
    shown = {entry.name: entry for entry in DynamicConfig(load()[0]).describe_topic(stored)}
    assert shown["retention.ms"].value == "-1"
    assert shown["compression.gzip.level"].value == "-1"
