"""Exchanges that hash: values, weights and keys of all kinds, many bindings, wrong stored ones."""

from time import perf_counter

import pytest

from headrace.queues.model.declaration_table import apply
from headrace.queues.model.exchange_types import consistent_hash
from headrace.queues.model.stored_model import BindingRecord, ExchangeRecord
from headrace.queues.refusals import Refused
from headrace.wire.amqp.field_table import FieldValue, Long
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.queues.exchange_types import (
    add,
    assert_shares,
    by_properties,
    host_with,
    keys,
    only,
    routed,
)
from tests.support.queues.virtual_hosts import (
    bind,
    exchange,
    queue,
    to_exchange,
    to_queue,
    unbind,
    virtual_host,
)

HASH, MODULUS = "x-consistent-hash", "x-modulus-hash"


@pytest.mark.parametrize("weight", ["1e3", " 1", "1 ", "1_0", "٣", "+", "0x10", "\n1"])
def test_weight_that_python_but_not_erlang_reads_is_refused(weight: str) -> None:
    host = host_with(HASH, {})
    with pytest.raises(Refused, match="The binding key must be an integer: <<"):
        add(host, "q", weight)
    with pytest.raises(Refused, match="must not exceed 10000"):
        add(host, "q", "1" + 200 * "0")
    with pytest.raises(Refused, match="must be greater than 0"):
        add(host, "q", "-" + 200 * "9")
    add(host, "q", "10000")
    host.remove_queue("q")
    add(host, "q", "+007")
    assert only(host.router.route("e", "k")) == "q"


@pytest.mark.parametrize("argument", ["hash-header", "hash-property"])
def test_argument_that_is_no_string_is_refused(argument: str) -> None:
    with pytest.raises(Refused, match=f"Invalid argument '{argument}'"):
        host_with(HASH, {}, {argument: 5})


def test_route_is_the_same_for_any_order_of_bindings() -> None:
    weights = {f"q{number}": str(1 + number % 4) for number in range(20)}
    there = host_with(HASH, weights)
    back = host_with(HASH, dict(reversed(weights.items())))
    add(back, "gone", "9")
    back.remove_queue("gone")
    assert routed(there, 500) == routed(back, 500)


def test_equal_hashes_have_one_order_on_all_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistent_hash, "_lane", lambda _: bytes([7] * 8) + bytes(8))
    for names in ("abc", "cba"):
        host = host_with(HASH, dict.fromkeys(names, "1"))
        assert set(routed(host, 20).values()) == {"a"}


def test_hashes_are_the_same_in_all_versions() -> None:
    # A change of these would move messages while brokers of two versions serve an exchange.
    expected = {HASH: "äaääääbäaääbaääbaaää", MODULUS: "ääääaababbäbaääabbbä"}
    for type_name, queues in expected.items():
        host = host_with(type_name, {"a": "1", "b": "2", "ä": "3"})
        assert "".join(routed(host, 20).values()) == queues
    host = host_with(HASH, {"a": "1", "b": "2", "ä": "3"}, {"hash-header": "h"})
    values: list[FieldValue] = [1, 1.5, True, "ä", b"x", None, [1, "a"], {"a": 1}]
    sent = [make_header(0, Properties(headers={"h": each})) for each in values]
    found = [only(host.router.route("e", "", content_header=each)) for each in sent]
    assert "".join(found) == "ääabäbbä"


def test_smallest_weight_of_several_bindings_is_the_queues() -> None:
    host = host_with(HASH, {"a": "5", "b": "1"})
    bind(host, to_queue("e", "a", "1"))
    even = list(routed(host, 1000).values())
    assert_shares({name: even.count(name) for name in "ab"}, {"a": 1, "b": 1})
    unbind(host, to_queue("e", "a", "1"))
    assert routed(host, 1000) == routed(host_with(HASH, {"a": "5", "b": "1"}), 1000)
    unbind(host, to_queue("e", "a", "5"))
    assert set(routed(host, 100).values()) == {"b"}
    unbind(host, to_queue("e", "b", "1"))
    assert host.router.route("e", "k") == ()


def test_equal_values_of_other_widths_have_one_queue() -> None:
    host = host_with(HASH, {f"q{number}": "1" for number in range(50)}, {"hash-header": "h"})
    equal: list[list[FieldValue]] = [[5, Long(5)], ["a", b"a"]]
    for same in equal:
        assert len(by_properties(host, [Properties(headers={"h": each}) for each in same])) == 1
    other: list[FieldValue] = [5, 5.0, "5", True, None]
    assert len(by_properties(host, [Properties(headers={"h": each}) for each in other])) > 2


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_property_decides_and_nothing_else(name: str) -> None:
    host = host_with(HASH, {"a": "1", "b": "1"}, {"hash-property": name})
    values = range(200) if name == "timestamp" else keys(200)
    found = by_properties(
        host,
        [Properties(headers={"h": each}, **{name: each}) for each in values],  # type: ignore[arg-type]
    )
    assert_shares(found, {"a": 1, "b": 1})
    assert len(by_properties(host, [Properties(app_id=each) for each in keys(50)])) == 1
    malformed = make_header(0, Properties(**{name: values[0]}))[:-1]  # type: ignore[arg-type]
    with pytest.raises(Refused, match="properties of a message cannot be read"):
        host.router.route("e", "k", content_header=malformed)


def test_all_keys_of_a_message_decide() -> None:
    for type_name in (HASH, MODULUS):
        host = host_with(type_name, {f"q{number}": "1" for number in range(50)})
        found = {host.router.route("e", "k", None, [more]) for more in keys(20)}
        assert len(found) > 5
        assert all(len(route) == 1 for route in found)


def test_ten_thousand_bindings_share_messages_and_routes_take_below_a_few_ms() -> None:
    host = virtual_host()
    exchange(host, "e", HASH)
    names = [f"q{number}" for number in range(10_000)]
    for name in names:
        queue(host, name)
        bind(host, to_queue("e", name, "100"))
    host.router.route("e", "first")
    begun = perf_counter()
    found = routed(host, 300)
    assert (perf_counter() - begun) / 300 < 0.01
    halves = [int(name[1:]) < 5000 for name in found.values()]
    assert_shares({"low": sum(halves), "high": 300 - sum(halves)}, {"low": 1, "high": 1})
    assert len(set(found.values())) > 280
    host.delete_exchange("e")


def test_exchanges_bound_in_a_cycle_route_to_each_queue_once() -> None:
    host = host_with(HASH, {"q": "1"})
    for name, type_name in (("r", "x-random"), ("m", MODULUS)):
        exchange(host, name, type_name)
        bind(host, to_exchange(name, "e", "1"), to_exchange("e", name, "1"))
    bind(host, to_exchange("e", "e", "1"))
    assert {host.router.route(source, key) for source in "erm" for key in keys(50)} == {("q",), ()}


def test_alternate_exchange_gets_messages_while_nothing_is_bound() -> None:
    for type_name in (HASH, MODULUS, "x-random", "x-local-random"):
        host = host_with(type_name, {}, {"alternate-exchange": "amq.fanout"})
        queue(host, "rest")
        bind(host, to_queue("amq.fanout", "rest"))
        assert host.router.route("e", "k") == ("rest",)
        key = "1" if type_name == HASH else ""
        add(host, "q", key)
        assert host.router.route("e", "k") == ("q",)
        unbind(host, to_queue("e", "q", key))
        assert host.router.route("e", "k") == ("rest",)


def test_modulus_ignores_binding_keys_and_counts_a_queue_once() -> None:
    host = host_with(MODULUS, {"a": "x", "b": "y"})
    before = routed(host, 100)
    for key in keys(10):
        bind(host, to_queue("e", "a", key))
    assert routed(host, 100) == before


def test_stored_exchange_with_invalid_arguments_and_weights_opens() -> None:
    host = virtual_host()
    wrong = {"hash-header": 5, "hash-property": "nosuch"}
    apply(host.table, ExchangeRecord("e", HASH, False, False, wrong))
    queue(host, "a")
    queue(host, "b")
    for name, weight in (("a", "text"), ("b", "-5")):
        apply(host.table, BindingRecord("e", "queue", name, weight, {}))
    assert set(routed(host, 100).values()) == {"a", "b"}


def test_other_type_is_refused_with_the_recorded_text() -> None:
    host = host_with("x-random", {})
    text = (
        "inequivalent arg 'type' for exchange 'e' in vhost '/': received 'x-modulus-hash' but"
        " current is 'x-random'"
    )
    with pytest.raises(Refused, match=text):
        exchange(host, "e", MODULUS)
    assert not exchange(host, "e", "x-random")
