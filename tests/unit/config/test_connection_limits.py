"""Bounds of single addresses and listeners: how they are written, and what becomes of them."""

import pytest

from headrace.config.broker import load
from headrace.config.connection_limits import parse_addresses
from headrace.config.definitions import broker_definition
from headrace.config.value_types import Mode
from headrace.model.errors import ConfigError


def test_addresses_have_numbers_behind_their_last_colon() -> None:
    assert parse_addresses("10.0.0.1:5, 127.0.0.1:0,::1:7,[fe80::0:1]:8,") == {
        "10.0.0.1": 5, "127.0.0.1": 0, "::1": 7, "fe80::1": 8,
    }  # fmt: skip
    assert parse_addresses("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:5", "names are not looked up"),
        ("10.0.0.1", "is not ADDRESS:NUMBER"),
        ("10.0.0.1:", "has no whole number"),
        ("10.0.0.1:-1", "has no whole number"),
        ("10.0.0.1:1,10.0.0.1:2", "appears more than once"),
    ],
)
def test_what_is_no_list_of_addresses_stops_the_start(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as problem:
        load(flags={"max.connections.per.ip.overrides": text})
    assert str(problem.value).startswith(f"max.connections.per.ip.overrides={text}: ")


def test_listeners_may_have_bounds_of_their_own_and_only_those_of_strangers_begin_unknown() -> None:
    config, warnings = load(
        """
        listeners=A://127.0.0.1:1,B://127.0.0.1:2
        listener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT
        listener.name.a.max.connections=5
        listener.name.b.max.connection.creation.rate=7
        listener.name.c.max.connections=9
        """
    )
    limits = config.connection_limits
    assert (limits.of_listeners, limits.rates) == ({"A": 5}, {"B": 7})
    assert limits.begin_unknown == {"B"}
    assert limits.for_brokers == frozenset()
    assert [line for line in warnings if "max.connection" in line] == [
        "listener.name.c.max.connections: there is no listener of that name; it has no effect"
    ]


@pytest.mark.parametrize(("listeners", "spared"), [("A://127.0.0.1:1", set()), (
    "A://127.0.0.1:1,B://127.0.0.1:2", {"B"})])  # fmt: skip
def test_brokers_are_spared_where_they_have_a_listener_of_their_own(
    listeners: str, spared: set[str]
) -> None:
    config, _ = load(
        f"""
        listeners={listeners}
        listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT
        inter.broker.listener.name={"B" if spared else "A"}
        zookeeper.connect=127.0.0.1:2181
        broker.id=1
        """
    )
    assert config.connection_limits.for_brokers == spared


def test_a_listeners_bounds_are_altered_for_one_broker() -> None:
    for key in ("max.connections", "max.connection.creation.rate"):
        definition = broker_definition(f"listener.name.a.{key}")
        assert definition is not None
        assert definition.mode is Mode.PER_BROKER
        with pytest.raises(ValueError, match="at least"):
            definition.parse("-1")
