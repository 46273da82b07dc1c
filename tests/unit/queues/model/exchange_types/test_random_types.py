"""Random exchanges: each binding counts, nothing is cached, and local means led here."""

from collections import Counter

import pytest

from headrace.queues.model.declaration_table import apply
from headrace.queues.model.stored_model import BindingRecord
from headrace.queues.refusals import Refused
from headrace.testing.clock import SimRandom
from tests.support.queues.exchange_types import add, assert_shares, host_with, keys, only
from tests.support.queues.virtual_hosts import bind, exchange, to_exchange, to_queue, unbind


def test_each_binding_has_a_share_and_keys_have_no_meaning() -> None:
    host = host_with("x-random", {"a": "x", "b": "y"})
    bind(host, to_queue("e", "a", "z"))
    host.router.context.uniform = SimRandom(1).uniform
    found = Counter(only(host.router.route("e", "k")) for _ in range(600))
    assert_shares(found, {"a": 2, "b": 1})


def test_route_through_a_random_exchange_is_not_cached() -> None:
    host = host_with("x-random", {"a": "", "b": ""})
    exchange(host, "front", "fanout")
    bind(host, to_exchange("front", "e"))
    host.router.context.uniform = SimRandom(1).uniform
    exchange(host, "to exchanges", "x-random")
    for name in "ab":
        exchange(host, f"to {name}", "fanout")
        bind(host, to_exchange("to exchanges", f"to {name}"), to_queue(f"to {name}", name))
    for source in ("e", "front", "to exchanges"):
        assert {host.router.route(source, "k") for _ in range(50)} == {("a",), ("b",)}


def test_bindings_are_removed_in_any_order() -> None:
    names = keys(6)
    for removed in ([0, 1, 2], [5, 0, 3], [2, 5, 4], [1, 4, 5]):
        host = host_with("x-random", dict.fromkeys(names, ""))
        host.router.context.uniform = SimRandom(1).uniform
        left = set(names)
        for at in removed:
            unbind(host, to_queue("e", names[at]))
            left.discard(names[at])
            found = {only(host.router.route("e", "k")) for _ in range(100)}
            assert found == left
        for name in left:
            host.remove_queue(name)
        assert host.router.route("e", "k") == ()


def test_upper_bound_of_a_random_number_is_the_last_binding() -> None:
    host = host_with("x-random", {"a": "", "b": ""})
    host.router.context.uniform = lambda _, high: high
    assert host.router.route("e", "k") == ("b",)


def test_local_random_routes_to_queues_led_here() -> None:
    names = keys(40)
    host = host_with("x-local-random", dict.fromkeys(names, ""))
    led = {"k3", "k39"}
    context = host.router.context
    context.uniform, context.is_led_here = SimRandom(1).uniform, led.__contains__
    found = Counter(only(host.router.route("e", "any key")) for _ in range(400))
    assert_shares(found, dict.fromkeys(led, 1))
    led.discard("k3")
    assert {host.router.route("e", "k") for _ in range(20)} == {("k39",)}
    led.clear()
    assert host.router.route("e", "k") == ()


def test_local_random_refuses_other_exchanges_as_destinations() -> None:
    host = host_with("x-local-random", {"name": ""})
    exchange(host, "name", "fanout")
    for name in ("amq.fanout", "name"):
        with pytest.raises(Refused, match="Destination not found"):
            bind(host, to_exchange("e", name))
    unbind(host, to_queue("e", "name"))
    # One that is stored is not led here.
    host.router.context.is_led_here = {"q"}.__contains__
    apply(host.table, BindingRecord("e", "exchange", "amq.fanout", "", {}))
    assert host.router.route("e", "k") == ()
    add(host, "q", "")
    assert {host.router.route("e", "k") for _ in range(20)} == {("q",)}
