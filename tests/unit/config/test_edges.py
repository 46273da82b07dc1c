"""Settings of named things, matches, and words about wrong keys: each at its edge."""

import re

import pytest

from headrace.config.broker import load
from headrace.config.definitions import (
    BROKER,
    TOPIC,
    broker_definition,
    known_but_unused,
    nearest_broker_key,
    nearest_topic_key,
)
from headrace.config.descriptions import DynamicConfig, check_broker_config
from headrace.config.entity_settings import EntityConfigs, check_group_config, group_configs
from headrace.config.keys.entities import match_patterns
from headrace.config.keys.row import stand_in
from headrace.config.listeners import parse_listeners
from headrace.config.value_types import Kind
from headrace.model.errors import ApiError, ConfigError

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_groups_own_value_counts_else_the_brokers_else_kafkas_default() -> None:
    broker, _ = load("group.consumer.session.timeout.ms=46000")
    configs = group_configs()
    assert configs.value("g", SESSION, broker) == 46_000
    configs.put("g", {SESSION: "47000"})
    assert configs.value("g", SESSION, broker) == 47_000
    assert configs.value("other", SESSION, broker) == 46_000
    assert configs.value("g", HEARTBEAT, broker) == broker.effective(
        "group.consumer.heartbeat.interval.ms"
    )
    configs.put("g", {SESSION: "no number"})
    assert configs.value("g", SESSION, broker) == 46_000, "what cannot be read is as good as unset"
    assert configs.synonym(SESSION) == f"group.{SESSION}"
    assert configs.synonym("no.such.key") is None
    plain = EntityConfigs(configs.keys)
    assert plain.synonym(SESSION) is None
    assert plain.value("g", SESSION, broker) == configs.keys[SESSION].default


def test_who_listens_hears_of_each_change_and_nothing_set_is_forgotten() -> None:
    configs = group_configs()
    heard: list[str] = []
    configs.changed += [heard.append, lambda name: heard.append(name.upper())]
    configs.put("g", {SESSION: "47000"})
    assert configs.texts == {"g": {SESSION: "47000"}}
    configs.put("g", {})
    configs.put("g", {})
    assert configs.texts == {}
    assert heard == ["g", "G"] * 3


def test_a_session_must_outlast_the_heartbeat_wherever_either_is_said() -> None:
    broker, _ = load("group.consumer.min.session.timeout.ms=1000")
    check_group_config({}, broker)
    for texts in ({SESSION: "5000"}, {SESSION: "4999"}):
        with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
            check_group_config(texts, broker)
    check_group_config({SESSION: "5001"}, broker)
    narrow, _ = load(
        "group.consumer.max.heartbeat.interval.ms=100000\ngroup.consumer.session.timeout.ms=50000"
    )
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        check_group_config({HEARTBEAT: "50000"}, narrow)
    check_group_config({HEARTBEAT: "49999"}, narrow)
    with pytest.raises(ConfigError, match="Unknown group config name: nonsense"):
        check_group_config({"nonsense": "1"}, broker)
    with pytest.raises(ConfigError, match=f"{SESSION}=soon: "):
        check_group_config({SESSION: "soon"}, broker)


@pytest.mark.parametrize(
    "word", ["client_id", "client_id=a=b", "nobody=a", "=a", "client_id=[", "client_id==a"]
)
def test_a_match_that_cannot_be_understood_is_refused_with_its_words(word: str) -> None:
    with pytest.raises(ValueError, match=f"matching pattern: {re.escape(word)}$"):
        match_patterns((word,))


def test_matches_are_read_by_what_they_ask_about() -> None:
    found = match_patterns(("client_id = app-.* ", "client_source_port=909[0-9]"))
    assert {name: pattern.pattern for name, pattern in found.items()} == {
        "client_id": "app-.*",
        "client_source_port": "909[0-9]",
    }
    assert match_patterns(()) == match_patterns("client_id=a") == {}


def test_every_wrong_line_of_a_file_is_told_together_with_what_does_not_fit() -> None:
    with pytest.raises(ConfigError) as refused:
        load("log.dirs=/a,/b,/a\nno.such.key=1\nlog.segment.bytes=many")
    words = str(refused.value)
    assert "log.dirs=/a,/b,/a: a directory twice" in words
    assert "no.such.key" in words
    assert "log.segment.bytes=many" in words
    with pytest.raises(ConfigError, match="a directory twice"):
        load("log.dirs=/a,/a")
    load("log.dirs=/a,/b")


def test_a_mistyped_key_is_told_the_one_most_like_it() -> None:
    assert nearest_broker_key("log.segment.byte") == "log.segment.bytes"
    assert nearest_broker_key("log.retention.mss") == "log.retention.ms"
    assert nearest_broker_key("nothing at all") is None
    assert nearest_topic_key("retention.mss") == "retention.ms"
    assert nearest_topic_key("log.retention.ms") == "retention.ms"
    assert nearest_topic_key("nothing at all") is None


def test_a_key_is_told_whether_it_is_used_or_only_known_to_kafka() -> None:
    assert broker_definition("log.segment.bytes") is BROKER["log.segment.bytes"]
    assert broker_definition("no.such.key") is None
    unused = broker_definition("sasl.jaas.config")
    assert unused is not None
    assert not unused.in_use


def test_a_coarser_key_stands_in_in_its_unit_and_minus_one_stays() -> None:
    retention = BROKER["log.retention.ms"]
    names = [name for name, _ in retention.coarser]
    minutes, hours = names
    unset: dict[str, int | None] = dict.fromkeys(names)
    assert stand_in(retention, unset) is None
    assert stand_in(retention, unset | {hours: 2}) == 7_200_000
    assert stand_in(retention, {minutes: 3, hours: 2}) == 180_000
    assert stand_in(retention, unset | {minutes: 0}) == 0
    assert stand_in(retention, unset | {minutes: 1}) == 60_000
    assert stand_in(retention, unset | {minutes: -1}) == -1
    assert stand_in(retention, unset | {minutes: 1 << 61}) == (1 << 63) - 1


def test_passwords_and_nothing_else_are_kept_from_answers() -> None:
    for table in (BROKER, TOPIC):
        for definition in table.values():
            assert definition.sensitive is (definition.kind is Kind.PASSWORD)
    secret, plain = broker_definition("ssl.keystore.password"), broker_definition("log.dirs")
    assert secret is not None
    assert plain is not None
    assert (secret.sensitive, plain.sensitive) == (True, False)
    assert known_but_unused("zookeeper.ssl.keystore.password")
    assert not known_but_unused("log.dirs")


def test_a_listeners_port_is_65535_at_most() -> None:
    (listener,) = parse_listeners(["A://h:65535"], {"A": "PLAINTEXT"})
    assert listener.port == 65_535
    with pytest.raises(ValueError, match="at most 65535"):
        parse_listeners(["A://h:65536"], {"A": "PLAINTEXT"})


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_groups_assignment_intervals_are_altered_at_run_time_within_their_bounds(kind: str) -> None:
    name = f"group.{kind}.assignment.interval.ms"
    static, _ = load()
    assert check_broker_config({name: "2000"}, static, shared=True) == {name: "2000"}
    altered = DynamicConfig(static, shared={name: "2000"})
    (entry,) = [entry for entry in altered.describe_broker() if entry.name == name]
    assert (entry.value, entry.read_only) == ("2000", False)
    default = group_configs().default(f"{kind}.assignment.interval.ms", altered.effective())
    assert default == 2000
    with pytest.raises(ApiError, match="INVALID_REQUEST"):
        check_broker_config({name: "15001"}, static, shared=True)
