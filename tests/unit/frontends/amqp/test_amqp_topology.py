"""What administrators change of exchanges, queues and bindings, beside clients of that vhost."""

from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.queues.field_values import kind_of
from headrace.wire.amqp.field_table import FieldTable, UInt8
from headrace.wire.amqp.model_methods import (
    BasicCancel,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclareOk,
    QueueUnbind,
)
from tests.support.amqp.administration import Vhost
from tests.support.amqp.channels import bodies


@pytest.fixture
def vhost() -> Vhost:
    return Vhost()


# What comes to be is what clients would declare


def test_clients_find_a_queue_that_was_declared_equal_to_theirs(vhost: Vhost) -> None:
    arguments = {
        "x-max-length": 5,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
    }
    declared = vhost.ask("queue.declare", name="q", auto_delete=True, arguments=arguments)
    assert declared == {"queue": "q", "created": True, "messages": 0, "consumers": 0}
    theirs: dict[str, Any] = {"durable": True, "auto_delete": True, "arguments": arguments}
    assert vhost.client.declare(**theirs) == QueueDeclareOk("q", 0, 0)
    vhost.client.consume()
    vhost.client.publish(b"a", b"b")
    again = vhost.ask("queue.declare", name="q", auto_delete=True, arguments=arguments)
    assert (again["created"], again["consumers"]) == (False, 1)


def test_an_administrators_queue_is_no_connections_own_and_durable_as_is_said(vhost: Vhost) -> None:
    vhost.ask("queue.declare", name="kept")
    vhost.ask("queue.declare", name="gone", durable=False)
    queues = vhost.model.queues
    assert [(queues[name].durable, queues[name].owner) for name in ("kept", "gone")] == [
        (True, None), (False, None),
    ]  # fmt: skip


def test_clients_find_an_exchange_that_was_declared_equal_to_theirs(vhost: Vhost) -> None:
    flags = {"durable": True, "auto_delete": True, "internal": True}
    arguments = {"alternate-exchange": "amq.fanout"}
    question = {"name": "e", "type": "topic", **flags, "arguments": arguments}
    assert vhost.ask("exchange.declare", **question) == {"exchange": "e", "created": True}
    theirs = ExchangeDeclare(exchange="e", type="topic", arguments=dict(arguments), **flags)
    assert vhost.client.ask(theirs) == ExchangeDeclareOk()
    assert vhost.ask("exchange.declare", **question) == {"exchange": "e", "created": False}


def test_a_queue_without_a_name_is_named_by_the_broker(vhost: Vhost) -> None:
    name = vhost.ask("queue.declare", name="")["queue"]
    assert name.startswith("amq.gen-")
    assert list(vhost.room.queues) == [name]


def test_queues_and_exchanges_are_bound_once(vhost: Vhost) -> None:
    vhost.client.declare()
    for to, destination in (("queue", "q"), ("exchange", "amq.fanout")):
        question = {"source": "amq.topic", "destination": destination, "to": to}
        key = {"routing_key": "a.#"}
        assert vhost.ask("binding.create", **question, **key) == {"created": True}
        assert vhost.ask("binding.create", **question, **key) == {"created": False}
    assert vhost.bindings("amq.topic") == [
        ("queue", "q", "a.#", {}), ("exchange", "amq.fanout", "a.#", {}),
    ]  # fmt: skip
    vhost.client.publish(b"a", exchange="amq.topic", key="a.b")
    assert bodies(vhost.client.say(BasicGet(queue="q", no_ack=True))) == [b"a"]


def test_integers_are_longs_and_all_else_is_as_json_has_it(vhost: Vhost) -> None:
    arguments = {
        "small": 5, "large": 1 << 62, "least": -(1 << 63), "most": (1 << 63) - 1, "bool": True,
        "text": "5", "half": 0.5, "void": None, "table": {"n": 1}, "array": [2, False],
    }  # fmt: skip
    question = {"source": "amq.headers", "destination": "amq.fanout", "to": "exchange"}
    vhost.ask("binding.create", **question, arguments=arguments)
    ((_, _, _, kept),) = vhost.bindings("amq.headers")
    assert {name: kind_of(value) for name, value in kept.items()} == {
        "small": "long", "large": "long", "least": "long", "most": "long", "bool": "bool",
        "text": "longstr", "half": "double", "void": "void", "table": "table", "array": "array",
    }  # fmt: skip
    assert kept == arguments
    assert kind_of(kept["table"]["n"]) == kind_of(kept["array"][0]) == "long"


# What is deleted


def test_a_queue_goes_with_its_bindings_and_its_consumers_are_told(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.ask(QueueBind(queue="q", exchange="amq.topic", routing_key="a"))
    client.consume(tag="mine")
    client.publish(b"held")
    client.declare("full")
    client.publish(b"a", b"b", key="full")
    assert vhost.ask("queue.delete", name="q") == 0
    assert client.heard() == []
    vhost.room.clock.advance(0)
    assert [heard.method for heard in client.heard()] == [BasicCancel("mine", True)]
    assert vhost.bindings("amq.topic") == []
    assert vhost.ask("queue.delete", name="full") == 2
    assert not vhost.room.queues


def test_conditions_hold_a_deletion_up_and_without_them_it_is_done(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.publish(b"a")
    code, text = vhost.refused("queue.delete", name="q", if_empty=True)
    assert (code, text) == (
        ErrorCode.INVALID_REQUEST, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    )  # fmt: skip
    client.consume()
    text = vhost.refused("queue.delete", name="q", if_unused=True, if_empty=True)[1]
    assert text == "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
    assert vhost.ask("queue.delete", name="q", if_empty=True) == 0
    vhost.ask("queue.declare", name="r")
    assert vhost.ask("queue.delete", name="r", if_unused=True) == 0
    vhost.ask("exchange.declare", name="e")
    vhost.ask("binding.create", source="e", destination="amq.fanout", to="exchange")
    text = vhost.refused("exchange.delete", name="e", if_unused=True)[1]
    assert text == "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use"
    vhost.ask("exchange.delete", name="e")
    vhost.ask("exchange.declare", name="e")
    assert vhost.ask("exchange.delete", name="e", if_unused=True) is None
    assert "e" not in vhost.model.exchanges


def test_a_purge_takes_what_is_ready_and_leaves_what_consumers_hold(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.publish(b"a", b"b", b"c")
    client.say(BasicGet(queue="q"))
    assert vhost.ask("queue.purge", name="q") == 2
    (row,) = vhost.ask("queue.list")
    assert (row["messages_ready"], row["messages_unacknowledged"]) == (0, 1)
    assert vhost.ask("queue.purge", name="q") == 0


def test_a_binding_is_deleted_by_what_lists_show_of_it_whatever_kind_its_numbers_are(
    vhost: Vhost,
) -> None:
    client = vhost.client
    client.declare()
    tables: tuple[FieldTable, ...] = (
        {"n": 1}, {"n": UInt8(1)}, {"n": True}, {"n": 1.0}, {"n": "1"}, {},
    )  # fmt: skip
    for arguments in tables:
        bind = QueueBind(queue="q", exchange="amq.headers", routing_key="k", arguments=arguments)
        assert client.ask(bind) == QueueBindOk()
    client.ask(QueueBind(queue="q", exchange="amq.headers", arguments={"n": 1}))
    client.ask(
        ExchangeBind(
            destination="amq.fanout", source="amq.headers", routing_key="k", arguments={"n": 1}
        )
    )
    which = {"source": "amq.headers", "destination": "q", "routing_key": "k"}
    assert vhost.ask("binding.delete", **which, arguments={"n": 1}) == 2
    assert vhost.bindings("amq.headers") == [
        ("queue", "q", "k", {"n": True}), ("queue", "q", "k", {"n": 1.0}),
        ("queue", "q", "k", {"n": "1"}), ("queue", "q", "k", {}),
        ("queue", "q", "", {"n": 1}), ("exchange", "amq.fanout", "k", {"n": 1}),
    ]  # fmt: skip
    assert vhost.ask("binding.delete", **which) == 1
    to = {"destination": "amq.fanout", "to": "exchange"}
    assert vhost.ask("binding.delete", **{**which, **to}, arguments={"n": 1}) == 1
    assert [arguments for *_, arguments in vhost.bindings("amq.headers")] == [
        {"n": True}, {"n": 1.0}, {"n": "1"}, {"n": 1},
    ]  # fmt: skip


def test_a_client_unbinds_what_an_administrator_bound(vhost: Vhost) -> None:
    vhost.client.declare()
    vhost.ask("binding.create", source="amq.topic", destination="q", routing_key="a")
    vhost.client.ask(QueueUnbind(queue="q", exchange="amq.topic", routing_key="a"))
    assert vhost.bindings("amq.topic") == []
