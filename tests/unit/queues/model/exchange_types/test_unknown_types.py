"""Exchanges of a type that this broker lacks: a later version or a plugin has declared them."""

import logging

import pytest

from headrace.queues.model.declaration_table import apply, remove
from headrace.queues.model.routing import NackedRoute
from headrace.queues.model.stored_model import BindingRecord, ExchangeRecord, exchange_record
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import Refused
from tests.support.queues.virtual_hosts import (
    bind,
    exchange,
    queue,
    to_exchange,
    to_queue,
    unbind,
    virtual_host,
)

LATER = ExchangeRecord("e", "x-later", False, False, {"x-what": 1})
BOUND = BindingRecord("e", "queue", "q", "k", {})


def opened() -> VirtualHost:
    host = virtual_host()
    queue(host, "q", durable=True)
    for record in (LATER, BOUND):
        apply(host.table, record)
    return host


def test_exchange_opens_says_so_and_is_kept_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        host = opened()
        apply(host.table, LATER)
    assert [record.getMessage().partition(". ")[0] for record in caplog.records] == [
        "exchange 'e' (vhost '/'): this broker does not have the exchange type 'x-later'"
    ]
    assert exchange_record(host.exchanges["e"]) == LATER
    assert [each.routing_key for each in host.exchanges["e"].bindings.values()] == ["k"]


def test_messages_that_come_to_it_are_nacked_by_any_way() -> None:
    host = opened()
    for name in ("front", "back"):
        exchange(host, name, "fanout", {"alternate-exchange": "e"} if name == "back" else {})
    bind(host, to_exchange("front", "e"), to_queue("front", "q"))
    for source in ("e", "front", "back"):
        for _ in range(2):
            route = host.router.route(source, "k")
            assert (route, type(route)) == ((), NackedRoute), source
    bind(host, to_queue("back", "q"))
    assert host.router.route("back", "k") == ("q",)
    unbind(host, to_exchange("front", "e"))
    assert host.router.route("front", "k") == ("q",)


def test_it_can_be_unbound_and_deleted_but_not_bound_or_declared() -> None:
    host = opened()
    with pytest.raises(Refused, match="has the type 'x-later', which this broker does not have"):
        bind(host, to_queue("e", "q", "other"))
    with pytest.raises(Refused, match="unknown exchange type 'x-later'"):
        exchange(host, "e", "x-later", {"x-what": 1})
    with pytest.raises(Refused, match="received 'fanout' but current is 'x-later'"):
        exchange(host, "e", "fanout")
    unbind(host, to_queue("e", "q", "k"))
    assert not host.exchanges["e"].bindings
    host.delete_exchange("e")
    assert "e" not in host.exchanges
    host = opened()
    remove(host.table, LATER)
    assert not host.bindings._to
