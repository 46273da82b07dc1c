"""A producer that gets no answer sends again: two messages with one UNIQ_KEY, for all readers."""

from confluent_kafka import Consumer

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.properties import UNIQUE_KEY, find_property
from headrace.wire.rocketmq.record_header import NAME, decode_facts
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import fields, made, port_of

KEYED = "UNIQ_KEY\x017F0000011EBC4E0E2F2A8D3F66750000\x02KEYS\x01order-1\x02"


def sent_with_a_lost_answer(broker: BrokerThread, topic: str) -> None:
    """Send a message over a connection that ends before its answer, and again over another."""
    with RemotingClient(port_of(broker)) as first:
        first.ask_send(topic, b"once", i=KEYED)
        while not broker.records(topic):  # it is stored, and nobody reads the answer
            pass
    with RemotingClient(port_of(broker)) as again:
        assert fields(again.send(topic, b"once", i=KEYED))["queueOffset"] == "1"


def unique_keys_of(headers: list[tuple[str, bytes | None]]) -> list[bytes | None]:
    """Return the UNIQ_KEY in the headers of a record."""
    found = [decode_facts(value) for name, value in headers if name == NAME]
    return [each and find_property(each.properties, UNIQUE_KEY) for each in found]


def test_a_message_whose_answer_is_lost_is_there_twice_with_one_unique_key(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "lost-answer")
    sent_with_a_lost_answer(broker, topic)
    pulled = messages_in(client.pull(topic))
    keys = {find_property(each.properties, UNIQUE_KEY) for each in pulled}
    assert [(each.queue_offset, each.body) for each in pulled] == [(0, b"once"), (1, b"once")]
    assert keys == {b"7F0000011EBC4E0E2F2A8D3F66750000"}
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "k", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    records = consumer.consume(2, 30)
    consumer.close()
    assert [(each.offset(), each.key(), each.value()) for each in records] == [
        (0, b"order-1", b"once"), (1, b"order-1", b"once"),
    ]  # fmt: skip
    assert [unique_keys_of(each.headers() or []) for each in records] == [list(keys)] * 2
