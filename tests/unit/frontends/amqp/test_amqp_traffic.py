"""Counters of channels, queues, exchanges and vhosts, as management shows them."""

from headrace.frontends.amqp.channel.channel_traffic import ChannelCounts
from headrace.queues.model.exchanges import Exchange
from headrace.queues.permissions.definitions import VhostDefinition
from headrace.queues.queue_traffic import DeliveryCounts
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ConfirmSelect,
    TxCommit,
    TxRollback,
    TxSelect,
)
from headrace.wire.amqp.hot import MANDATORY
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicGet,
    BasicNack,
    QueueBind,
)
from tests.support.amqp.channels import Everybody, QueueClient, QueueRoom, bodies, names
from tests.support.amqp.messages import message, publish_frames


def counted(client: QueueClient, channel: int = 0) -> ChannelCounts:
    """Return the counters of the client's channel at a place."""
    (at,) = client.room.broker.clients
    return at.channels[channel].counts()


def exchanges(room: QueueRoom) -> dict[str, Exchange]:
    """Return the exchanges of the vhost."""
    return room.broker.virtual_hosts.hosts["/"].model.exchanges


def ins(room: QueueRoom, *named: str) -> list[int]:
    """Return how many messages came to exchanges."""
    return [exchanges(room)[name].publish_in for name in named]


def test_publishes_count_for_the_channel_and_each_exchange() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    named = ("", "amq.fanout", "amq.fanout", "", "amq.topic", "")
    client.raw(b"".join(publish_frames(1, message(exchange=name)) for name in named))
    client.publish(b"a", b"b")
    assert counted(client).publish == 8
    assert ins(room, "", "amq.fanout", "amq.topic", "amq.direct") == [5, 2, 1, 0]
    assert counted(client).drop_unroutable == 3


def test_publishes_before_a_refused_one_count() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    right, wrong = message(), message(exchange="none")
    heard = client.raw(b"".join(publish_frames(1, each) for each in (right, right, wrong, right)))
    assert names(heard) == ["ChannelClose"]
    assert ins(room, "") == [2]
    assert room.broker.clients.traffic_in("/").messages.publish == 2


def test_confirms_count_without_nacks() -> None:
    client = QueueRoom(late=True).client()
    client.declare(durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    client.say(ConfirmSelect())
    client.publish(b"a", b"b", b"c", delivery_mode=2)
    assert counted(client)[:2] == (3, 0)
    client.room.stores["q"].keep()
    assert names(client.heard()) == ["BasicAck", "BasicNack"]
    client.publish(b"d", key="nowhere")
    assert counted(client)[:2] == (4, 3)
    client.say(BasicGet(queue="q", no_ack=True))
    client.publish(b"e", delivery_mode=2)
    client.room.stores["q"].keep(False)
    assert counted(client)[:2] == (5, 3), "a lost message is not confirmed"


def test_returned_and_dropped_messages_count_apart() -> None:
    client = QueueRoom().client()
    client.publish(b"a", b"b", flags=MANDATORY)
    client.publish(b"c")
    assert counted(client)[:4] == (3, 0, 2, 1)


def test_a_transaction_counts_at_its_commit() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    exchanges(room)[""].count_out()
    client.publish(b"z")
    tag = client.say(BasicGet(queue="q"))[0].method.delivery_tag
    client.say(TxSelect())
    client.publish(b"a", b"b")
    client.say(BasicAck(tag))
    assert (counted(client).publish, counted(client).deliveries.ack) == (1, 0)
    client.say(TxRollback())
    client.publish(b"c", b"d", b"e")
    client.say(BasicAck(tag))
    client.say(TxCommit())
    assert (counted(client).publish, counted(client).deliveries.ack) == (4, 1)
    assert ins(room, "") == [4]
    assert exchanges(room)[""].count_out() == 4


def test_deliveries_count_by_their_kind_for_queue_and_channel() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    client.say(BasicGet(queue="q"))
    client.publish(*[b"m"] * 7)
    client.say(BasicGet(queue="q"), BasicGet(queue="q"), BasicGet(queue="q", no_ack=True))
    client.say(BasicAck(1), BasicNack(2, False, True))
    client.consume()
    assert bodies(client.say(BasicCancel("c")))[:1] == [b""]
    client.say(BasicAck(7, True))
    client.consume(tag="d", no_ack=True)
    client.publish(b"n", b"o")
    expected = DeliveryCounts(5, 2, 2, 1, get_empty=1, redeliver=1, ack=5)
    assert expected.deliver_get == 10
    assert room.queues["q"].traffic.deliveries() == expected
    assert counted(client).deliveries == expected
    assert room.queues["q"].traffic.delivered == 10, "what /metrics shows is the same"


def test_deliveries_of_one_batch_count_by_their_consumers() -> None:
    client = QueueRoom().client()
    client.declare()
    client.consume()
    client.consume(tag="d", no_ack=True)
    client.publish(*[b"m"] * 6)
    expected = DeliveryCounts(deliver=3, deliver_no_ack=3)
    assert client.room.queues["q"].traffic.deliveries() == expected
    assert counted(client).deliveries == expected


def test_rejected_messages_do_not_count_as_acknowledged() -> None:
    client = QueueRoom().client()
    client.declare()
    client.publish(b"a", b"b")
    client.consume()
    client.say(BasicNack(2, True, False))
    assert counted(client).deliveries == DeliveryCounts(deliver=2)


def test_an_exchange_counts_routed_messages_once_read() -> None:
    room = QueueRoom()
    client = room.client()
    for name in ("q", "r"):
        client.declare(name)
        client.say(QueueBind(queue=name, exchange="amq.fanout"))
    exchange = exchanges(room)["amq.fanout"]
    client.publish(b"a", exchange="amq.fanout")
    assert exchange.count_out() == 0
    fan, plain = message(exchange="amq.fanout"), message()
    client.raw(b"".join(publish_frames(1, each) for each in (plain, fan, fan, plain)))
    assert (exchange.count_out(), exchange.publish_in) == (4, 3)
    assert exchanges(room)[""].publish_out is None


def test_counters_of_closed_channels_stay_until_their_vhost_is_deleted() -> None:
    admission = Everybody()
    room = QueueRoom(admission=admission)
    admission.definitions.put_vhost("v", VhostDefinition())
    other, client, second = room.client(), room.client(vhost="v"), room.client(vhost="v")
    other.publish(b"x")
    client.declare()
    client.publish(b"a", b"b")
    second.publish(b"c")
    second.consume()
    second.say(ChannelClose(200, "", 0, 0))
    both = ChannelCounts(publish=3, deliveries=DeliveryCounts(deliver=3))
    of = room.broker.clients.traffic_in
    assert of("v").messages == both
    client.connection.lost()
    second.connection.lost()
    assert (of("v").messages, of("/").messages) == (
        both,
        ChannelCounts(publish=1, drop_unroutable=1),
    )
    third = room.client(vhost="v")
    third.publish(b"d")
    admission.definitions.put_vhost("v", None)
    assert of("v").messages == ChannelCounts()


def test_bytes_of_closed_connections_stay_with_their_vhost() -> None:
    room = QueueRoom()
    clients = [room.client() for _ in range(3)]
    for number, at in enumerate(room.broker.clients):
        at.traffic.received_bytes, at.traffic.sent_bytes = 10, 1 + number
    for client in clients[1:]:
        client.connection.lost()
    assert room.broker.clients.traffic_in("/")[1:] == (30, 6)
