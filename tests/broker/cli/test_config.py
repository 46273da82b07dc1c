"""`headrace config`: what is set, from where it comes, and what is refused."""

from collections.abc import Iterator

import pytest

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({"log.segment.bytes": "1048576"}) as started:
        started.create_topics("orders", "plain")
        yield started


@pytest.mark.parametrize(("type_", "name", "key", "value", "source"), [
    ("topic", "orders", "retention.ms", "3600000", "topic"),
    ("topics", "orders", "cleanup.policy", "compact,delete", "topic"),
    ("group", "billing", "consumer.session.timeout.ms", "46000", "group"),
    ("client-metrics", "all", "interval.ms", "60000", "client metrics"),
    ("broker", "0", "log.retention.ms", "5000", "dynamic broker"),
    ("broker", "default", "log.retention.ms", "7000", "dynamic default"),
])  # fmt: skip
def test_what_is_set_is_told_with_its_source_and_can_be_taken_back(
    type_: str, name: str, key: str, value: str, source: str, asked: Asked
) -> None:
    code, answer = asked("config set", type_, name, f"{key}={value}")
    assert (code, answer["set"]) == (0, {key: value})
    _, found = asked("config get", type_, name, key)
    assert found["configs"] == {key: {"value": value, "source": source, "read_only": False}}
    _, everything = asked("config list")
    assert {"type": found["type"], "name": name, "configs": found["configs"]} in [
        {**entry, "configs": {key: entry["configs"][key]}}
        for entry in everything
        if key in entry["configs"]
    ]
    assert asked("config set", type_, name, "-d", key)[1]["deleted"] == [key]
    assert key not in str(asked("config list")[1])


def test_only_what_was_set_for_it_is_listed_and_all_on_request(asked: Asked) -> None:
    asked("config set", "broker", "default", "log.retention.ms=7000")
    _, found = asked("config list", "topic", "orders")
    assert found == [], "what comes from the brokers is theirs"
    _, (orders,) = asked("config list", "topic", "orders", "--all")
    assert orders["configs"]["retention.ms"] == {
        "value": "7000", "source": "dynamic default", "read_only": False,
    }  # fmt: skip
    _, (of_broker,) = asked("config list", "broker", "0")
    assert of_broker["configs"]["log.segment.bytes"]["source"] == "static"
    assert "log.retention.ms" not in of_broker["configs"]


def test_settings_are_a_table_or_the_values_alone(says: Says) -> None:
    assert says("config", "set", "topic", "orders", "retention.ms=5", "-d", "segment.ms") == (
        0, "topic orders: retention.ms=5\ntopic orders: segment.ms is at its default\n", "",
    )  # fmt: skip
    _, text, _ = says("config", "get", "topic", "orders", "retention.ms", "cleanup.policy")
    assert [line.split() for line in text.splitlines()] == [
        ["SETTING", "VALUE", "SOURCE"], ["retention.ms", "5", "topic"],
        ["cleanup.policy", "delete", "default"],
    ]  # fmt: skip
    assert says("config", "get", "topic", "orders", "retention.ms", "--value")[1] == "5\n"
    code, text, remark = says("config", "get", "topic", "plain")
    assert (code, text) == (0, "")
    assert "nothing is set for topic plain" in remark


@pytest.mark.parametrize(("words", "code", "said"), [
    ("set topic orders retentoin.ms=1", 2, "no setting retentoin.ms; did you mean retention.ms"),
    ("get topic orders qqqqqqq", 2, "no setting qqqqqqq; see: headrace config list topic orders"),
    ("set broker default log.retention.m=1", 2, "did you mean log.retention.ms"),
    ("set broker 0 broker.id=7", 1, "broker.id of a broker cannot be changed while it runs"),
    ("set topic orders retention.ms=x", 1, "must be a whole number"),
    ("set topic orders", 2, "nothing to set"),
    ("set topic orders retention.ms=1 -d retention.ms", 2, "set and deleted at once"),
    ("set topic orders retention.ms", 2, "must be key=value"),
    ("get topic order", 4, "there is no topic order; did you mean orders?"),
    ("get broker 7", 4, "there is no broker 7; there are 0, and default"),
    ("get client-metrics x", 4, "there is no client metrics subscription x"),
    ("list planet", 2, "planet has no settings: must be topic, broker, group, client-metrics"),
])  # fmt: skip
def test_a_slip_is_named_with_its_remedy(words: str, code: int, said: str, says: Says) -> None:
    found = says("config", *words.split())
    assert (found[0], found[1]) == (code, "")
    assert said in found[2]
    assert found[2].count("\n") == 1
