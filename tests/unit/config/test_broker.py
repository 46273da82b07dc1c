"""The broker's configuration: sources, refusals, what several keys make together."""

from contextlib import suppress
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.authentication.sasl import SaslListener
from headrace.config.broker import BrokerConfig, Source, load, variable
from headrace.config.definitions import (
    BROKER,
    BROKER_KEY_OF_TOPIC_KEY,
    COARSER,
    TOPIC,
    known_but_unused,
    protocol_keys,
)
from headrace.config.keys.groups import GroupKeys
from headrace.config.keys.row import attribute
from headrace.config.keys.topic import OF_REPLICAS
from headrace.config.keys.unused import UNUSED
from headrace.config.log_config import LogConfig
from headrace.config.value_types import LONG_MAX, Kind, Mode, text_of
from headrace.model.errors import ConfigError


def refusals(text: str = "", **flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, {}, {name.replace("_", "."): value for name, value in flags.items()})
    return str(caught.value).splitlines()


def test_without_anything_it_is_loopback_durable_and_silent() -> None:
    config, warnings = load()
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.log_flush_on_ack is True
    assert config.insecure_listeners is False
    assert config.metrics_address is None
    assert warnings == []


def test_an_empty_name_of_a_log_directory_is_refused_not_replaced_by_the_default() -> None:
    assert refusals(log_dirs="") == ["log.dirs=: names no directory"]
    assert refusals(log_dirs=" , ") == ["log.dirs=: names no directory"]
    assert refusals(log_dir="") == ["log.dir=: names no directory"]


def test_every_default_passes_its_own_check() -> None:
    for definition in [*BROKER.values(), *TOPIC.values()]:
        if definition.default is not None:
            text = text_of(definition.default)
            assert text is not None
            assert definition.parse(text) == definition.default, definition.name


TYPES = {
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
    Kind.PASSWORD: str,
    Kind.SHORT: int,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.DOUBLE: float,
    Kind.LIST: tuple,
}


def test_every_key_has_an_attribute_of_its_type() -> None:
    config, _ = load()
    hints = get_type_hints(BrokerConfig, localns={"SaslListener": SaslListener})
    protocols = {row.name for row in protocol_keys()}
    for name, definition in BROKER.items():
        value = config.values[name] if name in protocols else getattr(config, attribute(name))
        assert value is None or type(value) is TYPES[definition.kind], name
        if value is None:
            assert "None" in str(hints[attribute(name)]), name
    for name, definition in TOPIC.items():
        if definition.in_use and definition not in OF_REPLICAS:
            value = getattr(LogConfig(), attribute(name))
            assert type(value) in {TYPES[definition.kind], frozenset}, name


def test_every_attribute_is_a_key_or_made_of_one() -> None:
    made = {
        "metrics_address", "values", "sources", "sasl", "connection_limits",
        "listeners_between_brokers",
    }  # fmt: skip
    protocols = {row.name for row in protocol_keys()}
    assert {attribute(name) for name in BROKER.keys() - protocols} | made == set(vars(load()[0]))


def test_an_attribute_is_the_configurations_own_not_its_classs() -> None:
    assert [name for name in BROKER if hasattr(BrokerConfig, attribute(name))] == []


def test_the_keys_of_an_area_are_their_defaults_unless_others_are_given() -> None:
    keys = GroupKeys(group_max_size=3)
    assert keys.group_max_size == 3
    assert keys.groups_max == BROKER["groups.max"].default
    assert not hasattr(keys, "log_segment_bytes")
    with pytest.raises(TypeError, match="group_size"):
        GroupKeys(group_size=3)


def test_no_key_is_both_used_and_unused() -> None:
    assert not UNUSED & BROKER.keys()


def test_every_synonym_is_a_broker_key_of_the_same_type_and_default() -> None:
    for topic_key, broker_key in BROKER_KEY_OF_TOPIC_KEY.items():
        topic, broker = TOPIC[topic_key], BROKER[broker_key]
        assert topic.kind is broker.kind, topic_key
        if broker_key not in COARSER:
            assert topic.default == broker.default, topic_key
        assert broker.mode is Mode.CLUSTER_WIDE, broker_key


def test_documentation_is_one_line_of_sentences() -> None:
    for definition in [*BROKER.values(), *TOPIC.values()]:
        assert definition.doc.endswith("."), definition.name
        assert "\n" not in definition.doc
        assert "  " not in definition.doc


def test_flags_win_over_variables_and_those_over_the_file() -> None:
    text = "num.partitions=2\nlog.dirs=/file\nbroker.id=3"
    environ = {"HEADRACE_NUM_PARTITIONS": "4", "HEADRACE_LOG_DIRS": "/a, /b"}
    config, _ = load(text, environ, {"num.partitions": "5"})
    assert config.num_partitions == 5
    assert config.log_dirs == ("/a", "/b")
    assert config.broker_id == 3
    assert config.sources["num.partitions"] is Source.FLAG
    assert config.sources["log.dirs"] is Source.ENVIRONMENT
    assert config.sources["broker.id"] is Source.FILE
    assert config.sources["log.segment.bytes"] is Source.DEFAULT


def test_each_wrong_value_is_one_line_with_name_value_and_reason() -> None:
    lines = refusals("num.partitions=many\nlog.flush.on.ack=yes\nlog.cleanup.policy=burn")
    assert lines == [
        "num.partitions=many: must be a whole number",
        "log.flush.on.ack=yes: must be true or false",
        "log.cleanup.policy=burn: 'burn' is not one of delete, compact",
    ]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "2147483648", "32 bits"),
        ("num.partitions", "1_000", "whole number"),
        ("num.partitions", "", "whole number"),
        ("log.retention.bytes", "-2", "at least -1"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("compression.type", "brotli", "one of"),
        ("listeners", "", "at least one"),
        ("listeners", "127.0.0.1:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://127.0.0.1:99999", "65535"),
        ("listeners", "INNER://127.0.0.1:9092", "listener.security.protocol.map"),
        (
            "listeners",
            "RABBITMQ://127.0.0.1",
            "there is no listener name RABBITMQ; known are AMQP, AMQPS, MANAGEMENT,"
            " MANAGEMENT_SSL, PLAINTEXT, ROCKETMQ, SASL_PLAINTEXT, SASL_SSL, SSL, and"
            " listener.security.protocol.map can define others",
        ),
        ("listeners", "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", "two listeners"),
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:1,AMQP://127.0.0.1,AMQP://[::1]",
            "two listeners have the name AMQP. Rename the second one, to AMQP2://[::1]:5672, and"
            " add AMQP2:AMQP to listener.security.protocol.map",
        ),
        ("listener.security.protocol.map", "A:B", "NAME:PROTOCOL"),
        ("advertised.listeners", "OTHER://h:1", "no listener name OTHER"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "name a host"),
        ("metrics.listener", "nowhere", "host:port"),
        ("log.dirs", "/a,/a", "twice"),
    ],
)
def test_it_is_refused(key: str, value: str, reason: str) -> None:
    (line,) = refusals(f"{key}={value}")
    assert line.startswith(f"{key}=")
    assert reason in line


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("log.dir.s", "log.dirs"),
        ("num.partition", "num.partitions"),
        ("log.segment.byte", "log.segment.bytes"),
        ("log.flush.on.acks", "log.flush.on.ack"),
    ],
)
def test_a_key_nobody_knows_is_refused_with_the_nearest(mistyped: str, meant: str) -> None:
    (line,) = refusals(f"{mistyped}=1")
    assert line == f"{mistyped}: no such key; did you mean {meant}?"


def test_a_key_like_none_is_refused_without_a_guess() -> None:
    assert refusals("completely.different=1") == ["completely.different: no such key"]


def test_a_key_of_kafkas_that_is_not_used_is_warned_of() -> None:
    config, warnings = load("zookeeper.clientCnxnSocket=c\nnum.io.threads=8\nnum.partitions=3")
    assert config.num_partitions == 3
    assert len(warnings) == 2
    assert all("does not use" in warning for warning in warnings)
    assert known_but_unused("listener.name.internal.ssl.engine.factory.class")


def test_a_foreign_variable_with_our_prefix_is_warned_of_only() -> None:
    _, warnings = load("", {"HEADRACE_PORT": "tcp://10.0.0.1:80", "HEADRACE_JAVA": "bundled"})
    assert len(warnings) == 1
    assert warnings[0].startswith("HEADRACE_PORT")


def test_variables_are_unambiguous() -> None:
    assert len({variable(name) for name in BROKER}) == len(BROKER)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("", 168 * 3_600_000),
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.hours=-1", -1),
        ("log.retention.ms=-1\nlog.retention.hours=1", -1),
        ("log.retention.hours=2147483647", 2147483647 * 3_600_000),
    ],
)
def test_the_finer_unit_of_retention_wins(text: str, expected_ms: int) -> None:
    config, _ = load(text)
    assert config.log_retention_ms == expected_ms
    assert config.effective("log.retention.ms") == expected_ms


def test_the_other_coarse_units_stand_in() -> None:
    config, _ = load("log.roll.hours=1\nlog.roll.jitter.hours=2\nlog.dir=/d")
    assert config.log_roll_ms == 3_600_000
    assert config.log_roll_jitter_ms == 7_200_000
    assert config.log_dirs == ("/d",)
    assert config.log_flush_interval_ms == (1 << 63) - 1


def test_a_listener_others_reach_needs_a_word() -> None:
    for listener in ("PLAINTEXT://:9092", "PLAINTEXT://192.168.1.2:9092", "PLAINTEXT://[::]:9092"):
        (line,) = refusals(f"listeners={listener}")
        assert "--insecure" in line
        config, _ = load(f"listeners={listener}\ninsecure.listeners=true")
        assert config.listeners[0].port == 9092


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]"])
def test_loopback_needs_none(host: str) -> None:
    config, _ = load(f"listeners=PLAINTEXT://{host}:0")
    assert config.listeners[0].loopback
    assert str(config.listeners[0]) == f"PLAINTEXT://{host}:0"


def test_a_kraft_server_properties_starts_without_its_controller_listener() -> None:
    config, warnings = load(
        """
        process.roles=broker,controller
        node.id=7
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        num.network.threads=3
        log.dirs=/tmp/kraft-combined-logs
        offsets.topic.replication.factor=1
        """
    )
    assert [one.name for one in config.listeners] == ["PLAINTEXT"]
    assert [one.name for one in config.advertised_listeners] == ["PLAINTEXT"]
    assert config.broker_id == 7
    assert any("controller.listener.names" in warning for warning in warnings)


def test_two_different_ids_are_refused() -> None:
    assert refusals("broker.id=1\nnode.id=2") == ["node.id=2: but broker.id=1"]
    assert load("broker.id=2\nnode.id=2")[0].broker_id == 2


def test_what_is_advertised_follows_the_listeners() -> None:
    config, _ = load(
        """
        listeners=A://127.0.0.1:1,B://:2,C://127.0.0.1:3
        listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT
        advertised.listeners=C://example.org:33
        insecure.listeners=true
        """
    )
    told = [(one.name, one.host, one.port) for one in config.advertised_listeners]
    assert told == [("A", "127.0.0.1", 1), ("B", "", 2), ("C", "example.org", 33)]


def test_small_segments_are_warned_of() -> None:
    _, warnings = load("log.segment.bytes=107370")
    assert len(warnings) == 1
    assert "Kafka 4 refuses" in warnings[0]


def test_settings_for_more_brokers_than_one_are_warned_of() -> None:
    _, warnings = load("default.replication.factor=3\nmin.insync.replicas=2")
    assert [one.partition(":")[0] for one in warnings] == ["default.replication.factor=3"]


def test_an_update_makes_another_configuration_and_combines_anew() -> None:
    config, _ = load("log.retention.hours=1")
    changed = config.updated({"log.retention.ms": 5})
    assert changed.log_retention_ms == 5
    assert config.log_retention_ms == 3_600_000


@given(st.sampled_from(sorted(BROKER)), st.text(max_size=20))
def test_no_value_breaks_loading_otherwise(name: str, text: str) -> None:
    with suppress(ConfigError):
        config, _ = load(flags={name: text})
        if BROKER[name].kind in {Kind.INT, Kind.LONG, Kind.SHORT}:
            assert isinstance(config.values[name], int)


def test_a_rate_that_is_taken_at_run_time_only_is_warned_of_in_a_file() -> None:
    config, warnings = load("leader.replication.throttled.rate=5")
    assert config.leader_replication_throttled_rate == LONG_MAX
    (warning,) = warnings
    assert warning.startswith("leader.replication.throttled.rate: taken at run time only")
