"""What of a vhost is stored, and what comes back from it."""

from collections.abc import Iterable
from typing import Any

import pytest

from headrace.model.errors import Malformed
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied, apply, remove
from headrace.queues.model.declarations import QueueCounts
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    PolicyRecord,
    QueueRecord,
    Record,
    durable_records,
    from_store,
    policy_record,
)
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import Refused
from tests.support.queues.policies import vhost_policy
from tests.support.queues.virtual_hosts import (
    ME,
    bind,
    exchange,
    queue,
    to_exchange,
    to_queue,
    virtual_host,
)


def restore(host: VirtualHost, records: Iterable[Record]) -> list[Applied]:
    """Apply stored records to the table of a vhost."""
    return [apply(host.table, record) for record in records]


def furnished() -> VirtualHost:
    host = virtual_host()
    queue(host, "kept", {"x-max-length": 5}, durable=True)
    queue(host, "gone")
    queue(host, "mine", durable=True, exclusive=True)
    queue(host, "", durable=True)
    exchange(host, "e", "topic", {"alternate-exchange": "amq.fanout"}, durable=True)
    exchange(host, "in", "headers", durable=True, internal=True, auto_delete=True)
    exchange(host, "passing", "fanout")
    bind(
        host,
        to_queue("e", "kept", "a.*", {"x": 1}),
        to_queue("amq.fanout", "kept"),
        to_queue("passing", "kept"),
        to_queue("e", "gone", "#"),
        to_queue("e", "mine", "#"),
        to_exchange("e", "in", "#"),
        to_exchange("e", "passing", "#"),
    )
    return host


def test_what_is_durable_survives_with_the_bindings_between() -> None:
    records = list(durable_records(furnished()))
    host = virtual_host()
    restore(host, records)
    assert set(host.queues) == {"kept", "amq.gen-AAAAAAAAAAAAAAAAAAAAAA"}
    assert host.queues["kept"].settings.length_max == 5
    assert host.queues["kept"].durable
    assert set(host.exchanges) == {*virtual_host().exchanges, "e", "in"}
    inner = host.exchanges["in"]
    assert (inner.internal, inner.auto_delete, inner.durable) == (True, True, True)
    assert host.exchanges["e"].alternate == "amq.fanout"
    assert host.router.route("e", "a.b") == ("kept",)
    assert host.router.route("e", "other") == ()
    assert list(durable_records(host)) == records


def test_a_declaration_repeated_after_a_restart_is_the_same() -> None:
    host = virtual_host()
    restore(host, list(durable_records(furnished())))
    assert not queue(host, "kept", {"x-max-length": 5}, durable=True).created
    assert not exchange(host, "e", "topic", {"alternate-exchange": "amq.fanout"}, durable=True)


def test_a_binding_without_an_end_is_told() -> None:
    host = virtual_host()
    lost: list[Record] = [
        BindingRecord("amq.direct", "queue", "none", "k", {}),
        BindingRecord("none", "exchange", "amq.direct", "k", {}),
    ]
    assert restore(host, lost) == [Applied(), Applied()]


def test_a_record_is_a_plain_dictionary_and_back() -> None:
    for record in durable_records(furnished()):
        kind: Any = type(record)
        assert from_store(kind, record._asdict()) == record
    stored = QueueRecord("q", auto_delete=False, arguments={})._asdict()
    with pytest.raises(Malformed, match="a stored ExchangeRecord has the fields arguments, auto_"):
        from_store(ExchangeRecord, stored)
    more = stored | {"more": 1}
    with pytest.raises(Malformed):
        from_store(QueueRecord, more)


def test_what_each_vhost_has_is_not_stored() -> None:
    assert list(durable_records(virtual_host())) == []


def test_an_exchange_and_a_queue_come_back_as_they_were_declared() -> None:
    before, host = virtual_host(), virtual_host()
    queue(before, "q", durable=True, auto_delete=True)
    exchange(before, "in", durable=True, internal=True)
    restore(host, durable_records(before))
    inner = host.exchanges["in"]
    assert (inner.internal, inner.auto_delete) == (True, False)
    assert host.queues["q"].auto_delete


def test_a_route_that_was_looked_up_before_a_binding_came_back_is_looked_up_again() -> None:
    host = virtual_host()
    queue(host, "q", durable=True)
    assert host.router.route("amq.direct", "k") == ()
    restore(host, [BindingRecord("amq.direct", "queue", "q", "k", {})])
    assert host.router.route("amq.direct", "k") == ("q",)


def test_an_end_of_the_other_kind_with_the_same_name_is_not_the_end() -> None:
    host = virtual_host()
    queue(host, "q", durable=True)
    lost: list[Record] = [
        BindingRecord("amq.direct", "queue", "amq.fanout", "k", {}),
        BindingRecord("amq.direct", "exchange", "q", "k", {}),
    ]
    assert restore(host, lost) == [Applied(), Applied()]


def test_a_binding_is_as_durable_as_its_end_and_not_as_what_else_has_that_name() -> None:
    host = virtual_host()
    for name, durable in (("a", True), ("b", False)):
        queue(host, name, durable=durable)
        exchange(host, name, durable=not durable)
        bind(host, to_queue("amq.direct", name), to_exchange("amq.direct", name))
    ends = [record[1:3] for record in durable_records(host) if isinstance(record, BindingRecord)]
    assert ends == [("queue", "a"), ("exchange", "b")]


def test_record_that_differs_replaces_the_queue_with_its_bindings() -> None:
    host = virtual_host()
    exchange(host, "e", durable=True, auto_delete=True)
    queue(host, "q", durable=True)
    bind(host, to_queue("e", "q", "k"))
    (same,) = (each for each in durable_records(host) if isinstance(each, QueueRecord))
    assert apply(host.table, same) == Applied()
    changed = apply(host.table, same._replace(arguments={**same.arguments, "x-max-length": 3}))
    assert changed.removed == Removed(queues=("q",), bindings=(to_queue("e", "q", "k"),))
    assert host.queues["q"].settings.length_max == 3
    assert "e" in host.exchanges, "only a command deletes what is left unbound"


def test_record_that_differs_replaces_the_exchange_with_its_bindings() -> None:
    host = virtual_host()
    exchange(host, "e", durable=True)
    queue(host, "q", durable=True)
    bind(host, to_queue("e", "q", "k"))
    changed = apply(host.table, ExchangeRecord("e", "fanout", False, False, {}))
    assert changed.removed.bindings == (to_queue("e", "q", "k"),)
    assert host.router.route("e", "k") == ()
    host.delete_queue("q", ME, QueueCounts())
    assert set(host.exchanges) == {*virtual_host().exchanges, "e"}


def test_policy_is_restored_and_a_later_record_replaces_it() -> None:
    host = virtual_host()
    first, operators = vhost_policy(), vhost_policy(operators=True)
    restore(host, map(policy_record, (first, operators)))
    assert list(durable_records(host)) == [policy_record(first), policy_record(operators)]
    assert apply(host.table, policy_record(first)) == Applied()
    later = vhost_policy(length=9, at=1)
    assert apply(host.table, policy_record(later)) == Applied(later)
    assert host.policies == {first.id: later, operators.id: operators}
    assert remove(host.table, policy_record(first)) == Removed(policies=(first.id,))
    assert remove(host.table, policy_record(first)) == Removed()
    assert host.policies == {operators.id: operators}


def test_invalid_record_changes_nothing() -> None:
    host = virtual_host()
    queue(host, "q", durable=True)
    exchange(host, "e", durable=True)
    before = list(durable_records(host))
    for record in (
        PolicyRecord("p", False, "{", 1),
        PolicyRecord("p", False, "{}", 1),
        QueueRecord("q", False, {"x-max-length": -1}),
    ):
        with pytest.raises((Refused, Malformed)):
            apply(host.table, record)
    assert list(durable_records(host)) == before
