"""The contract of exchange types that are classes: what they get, and when they are asked."""

from collections.abc import Iterable, Sequence

import pytest

from headrace.exchanges import (
    Arguments,
    Binding,
    Destination,
    ExchangeKind,
    Message,
    Reads,
    Refused,
)
from headrace.queues import refusals
from headrace.queues.model.exchange_types import registry
from headrace.queues.model.exchange_types.kinds import type_of
from headrace.queues.model.virtual_host import VirtualHost
from headrace.wire.amqp.field_table import encode_table
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.queues.exchange_types import add
from tests.support.queues.virtual_hosts import bind, exchange, to_queue, unbind, virtual_host

PROPERTIES = Properties(headers={"h": 1, "other": 2}, app_id="a", message_id="m")


class Echo(ExchangeKind):
    """Routes to queues whose key is among the message's keys; notes its calls."""

    name, description = "x-echo", "for tests"
    calls: list[tuple[Sequence[Binding], Message]]

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        Echo.calls = []

    @property
    def reads(self) -> Reads:
        return Reads(("h",), ("app_id",)) if "reads" in self.arguments else Reads()

    @classmethod
    def check_arguments(cls, arguments: Arguments) -> None:
        if "wrong" in arguments:
            raise Refused("wrong is wrong")

    @classmethod
    def check_binding(cls, arguments: Arguments, binding: Binding) -> None:
        if binding.routing_key in arguments:
            raise Refused(f"no {binding.routing_key} with these arguments")

    def route(self, bindings: Sequence[Binding], message: Message) -> Iterable[Destination]:
        self.calls.append((bindings, message))
        return {each.destination for each in bindings if each.routing_key in message.routing_keys}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> VirtualHost:
    monkeypatch.setitem(registry.EXCHANGE_TYPES, Echo.name, type_of(Echo, "feature"))
    return virtual_host()


def test_route_of_keys_is_cached_until_a_binding_changes(host: VirtualHost) -> None:
    exchange(host, "e", Echo.name)
    for name in "ba":
        add(host, name, "k")
    for _ in range(3):
        assert host.router.route("e", "k") == ("a", "b")
    assert host.router.route("e", "k2", None, ["k"]) == ("a", "b")
    (view, message), (same, both) = Echo.calls
    assert [each.destination for each in view] == [("queue", "a"), ("queue", "b")]
    assert view is same
    assert (message, both.routing_keys) == (Message(("k",), {}, {}), ("k2", "k"))
    unbind(host, to_queue("e", "a", "k"))
    assert host.router.route("e", "k") == ("b",)
    assert [each.destination for each in Echo.calls[-1][0]] == [("queue", "b")]


def test_headers_and_properties_that_are_read_arrive_and_no_others(host: VirtualHost) -> None:
    exchange(host, "e", Echo.name, {"reads": True})
    add(host, "q", "k")
    for _ in range(2):
        headers = encode_table(PROPERTIES.headers or {})
        route = host.router.route("e", "k", headers, (), make_header(0, PROPERTIES))
        assert route == ("q",)
    assert [message for _, message in Echo.calls] == 2 * [
        Message(("k",), {"h": 1}, {"app_id": "a"})
    ]
    assert host.router.route("e", "k") == ("q",)
    assert Echo.calls[-1][1] == Message(("k",), {}, {})


def test_refusals_of_the_class_are_the_clients_texts(host: VirtualHost) -> None:
    with pytest.raises(refusals.Refused, match="wrong is wrong") as refused:
        exchange(host, "e", Echo.name, {"wrong": 1})
    assert refused.value.kind is refusals.RefusalKind.PRECONDITION_FAILED
    exchange(host, "e", Echo.name, {"k": 1})
    with pytest.raises(refusals.Refused, match="no k with these arguments"):
        add(host, "q", "k")
    bind(host, to_queue("e", "q", "other"))
