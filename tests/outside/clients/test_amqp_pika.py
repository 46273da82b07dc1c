"""pika against a broker with a listener of AMQP; `make amqp-test` plays far more."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAuthenticationError, UnroutableError

from headrace.testing import BrokerThread

CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
}
SECONDS = 20


@contextmanager
def connected(broker: BrokerThread, password: str = "guest") -> Iterator[Any]:
    """Connect as guest."""
    port = broker.call(lambda server: server.listeners[1].port)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            port,
            credentials=pika.PlainCredentials("guest", password),
            socket_timeout=SECONDS,
            blocked_connection_timeout=SECONDS,
        )
    )
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def test_pika_publishes_with_confirms_and_consumes_with_acknowledgements() -> None:
    with BrokerThread(CONFIG) as broker, connected(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": 1})
        sent = [b"%d" % number for number in range(300)] + [bytes(200_000)]
        for body in sent:
            channel.basic_publish("", "orders", body, properties)
        with pytest.raises(UnroutableError):
            channel.basic_publish("", "nobody", b"lost", mandatory=True)
        channel.basic_qos(prefetch_count=50)
        got = []
        for method, found, body in channel.consume("orders", inactivity_timeout=SECONDS):
            assert found.headers == {"n": 1}
            got.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(got) == len(sent):
                break
        assert got == sent
        channel.cancel()
        assert channel.queue_declare("orders", passive=True).method.message_count == 0


def test_pika_is_refused_in_rabbitmqs_words() -> None:
    with BrokerThread(CONFIG) as broker:
        with connected(broker) as connection:
            with pytest.raises(ChannelClosedByBroker) as closed:
                connection.channel().basic_get("none")
            assert closed.value.args == (404, "NOT_FOUND - no queue 'none' in vhost '/'")
            connection.channel().queue_declare("still")
        with pytest.raises(ProbableAuthenticationError), connected(broker, "wrong"):
            pass


def test_guest_is_let_in_only_where_the_configuration_says_so() -> None:
    config = {name: value for name, value in CONFIG.items() if name != "amqp.guest"}
    with (
        BrokerThread(config) as broker,
        pytest.raises(ProbableAuthenticationError),
        connected(broker),
    ):
        pass
