"""Publishes to exchanges of hashing, random and unknown types."""

from collections import Counter

from headrace.queues.model.declaration_table import apply
from headrace.queues.model.stored_model import BindingRecord, ExchangeRecord
from headrace.wire.amqp.control_methods import ConfirmSelect, TxCommit, TxSelect
from headrace.wire.amqp.hot import MANDATORY
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicNack,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueUnbind,
)
from tests.support.amqp.channels import QueueClient, QueueRoom, names


def unknown_type(room: QueueRoom) -> QueueClient:
    """Return a client of a vhost whose exchange `e` has an unknown type, bound to `q`."""
    client = room.client()
    client.declare()
    table = room.broker.virtual_hosts.hosts["/"].model.table
    apply(table, ExchangeRecord("e", "x-later", False, False, {}))
    apply(table, BindingRecord("e", "queue", "q", "k", {}))
    return client


def bound(room: QueueRoom, type_name: str, key: str, *queues: str, **arguments: str) -> QueueClient:
    """Return a client with queues that are bound to `e`."""
    client = room.client()
    client.say(ExchangeDeclare(exchange="e", type=type_name, arguments=dict(arguments)))
    for name in queues:
        client.declare(name)
        client.say(QueueBind(queue=name, exchange="e", routing_key=key))
    return client


def test_messages_to_an_unknown_type_are_nacked_and_those_beside_them_confirmed() -> None:
    room = QueueRoom()
    client = unknown_type(room)
    client.say(ConfirmSelect(), ExchangeBind(destination="e", source="amq.fanout"))
    client.publish(b"a", exchange="e", key="k")
    (heard,) = client.publish(b"a", exchange="e", key="k")
    assert heard.method == BasicNack(2, False, False)
    (heard,) = client.publish(b"b", exchange="amq.fanout")
    assert heard.method == BasicNack(3, False, False)
    (heard,) = client.publish(b"c")
    assert heard.method == BasicAck(4, False)
    returned, nacked = client.publish(b"d", exchange="e", flags=MANDATORY)
    assert returned.method[:4] == (312, "NO_ROUTE", "e", "q")
    assert nacked.method == BasicNack(5, False, False)
    assert room.queues["q"].ready == 1


def test_messages_to_an_unknown_type_without_confirms_are_dropped() -> None:
    client = unknown_type(QueueRoom())
    assert client.publish(b"a", exchange="e") == []
    assert names(client.publish(b"b", exchange="e", flags=MANDATORY)) == ["BasicReturn"]
    client.say(TxSelect())
    client.publish(b"a", exchange="e")
    assert client.ask(TxCommit()).reply_text == "PRECONDITION_FAILED - partial tx completion"


def test_each_message_of_a_pass_has_its_own_random_route() -> None:
    room = QueueRoom()
    # Numbers of the test: those of the kit do not vary.
    context = room.broker.virtual_hosts.hosts["/"].model.router.context
    numbers = iter([0.5, 1.5, 0.1, 1.9, 2.0, 0.0])
    context.uniform = lambda low, high: next(numbers)
    client = bound(room, "x-random", "", "q", "r")
    client.publish(*(b"%d" % number for number in range(6)), exchange="e")
    assert (room.queues["q"].ready, room.queues["r"].ready) == (3, 3)


def test_random_numbers_are_those_of_the_broker_in_each_vhost() -> None:
    hosts = QueueRoom().broker.virtual_hosts
    for host in (hosts.hosts["/"], hosts.add("other")):
        context = host.model.router.context
        assert context.uniform is hosts._uniform
        assert not context.is_led_here("q")
    assert hosts._uniform(3.0, 5.0) >= 3.0


def test_hash_property_of_a_message_without_headers_is_read() -> None:
    room = QueueRoom()
    client = bound(room, "x-consistent-hash", "1", "q", "r", **{"hash-property": "message_id"})
    for number in range(60):
        client.publish(b"", exchange="e", key="k", message_id=f"m{number}")
    assert min(room.queues["q"].ready, room.queues["r"].ready) > 10
    before = Counter({name: room.queues[name].ready for name in "qr"})
    for _ in range(10):
        client.publish(b"", exchange="e", key="k", message_id="m1", headers={"h": 1})
    assert 10 in (Counter({name: room.queues[name].ready for name in "qr"}) - before).values()


def test_unbind_between_publishes_of_one_pass_moves_the_later_ones() -> None:
    room = QueueRoom()
    client = bound(room, "x-consistent-hash", "1", "q", "r")
    client.say(ConfirmSelect())
    client.publish(b"a", exchange="e", key="k")
    (first,) = (name for name in "qr" if room.queues[name].ready)
    client.say(QueueUnbind(queue=first, exchange="e", routing_key="1"))
    client.publish(b"b", b"c", exchange="e", key="k")
    other = "r" if first == "q" else "q"
    assert (room.queues[first].ready, room.queues[other].ready) == (1, 2)
