"""Actions of AMQP clients between the requests: the steps named `client`."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pika
from pika import BasicProperties
from pika.exceptions import AMQPError

from tests.outside.amqp.address import Address

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

CLOSE_SECONDS_MAX = 5.0
STATISTICS_SECONDS = 6.0
"""Given to a quorum queue until it has counted its messages, which it does every 5 s."""
TRACE_SECONDS = 0.5
"""Given to traces of a publish until they are in their queue."""


class Clients:
    """Connections that a scenario has open at a broker; methods are its steps."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connections: list[pika.BlockingConnection] = []
        self._channels: list[BlockingChannel] = []
        self._delivered = 0
        self._queue = ""

    def play(self, name: str) -> Any:
        """Play a step; what its clients saw, as JSON: an error, if they could not play it."""
        try:
            return getattr(self, name)()
        except (AMQPError, IndexError, ValueError) as error:
            return _closed(error)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            with suppress(AMQPError):
                if connection.is_open:
                    connection.close()
        self._connections.clear()
        self._channels.clear()

    # Limits of users

    def connect_as_ann(self) -> None:
        """Open two channels, the most that user goldann may have."""
        connection = self._connect(user="goldann", name="first")
        self._channels = [connection.channel(), connection.channel()]

    def open_third_channel(self) -> Any:
        """Open one channel more than the limit."""
        try:
            self._connections[-1].channel()
        except AMQPError as error:
            return _closed(error)
        return {"opened": True}

    def connect_twice_as_ann(self) -> Any:
        """Open one connection more than the limit."""
        self._connect(user="goldann")
        return self._refused(user="goldann")

    # Policies

    def publish_twelve(self) -> None:
        """Publish twelve messages to a queue that a policy limits next."""
        channel = self._connect().channel()
        channel.queue_declare("gold-now", durable=True)
        channel.confirm_delivery()
        for number in range(12):
            channel.basic_publish("", "gold-now", b"%d" % number)
        self._channels = [channel]

    def get_first_left(self) -> Any:
        """Get the first message that the policy left."""
        method, _, body = self._channels[0].basic_get("gold-now", auto_ack=True)
        return {"body": body.decode(), "count": method.message_count}

    # Limits of vhosts

    def connect_to_slash(self) -> None:
        """Open the one connection that the vhost may have."""
        self._connect("gold/slash")

    def connect_twice_to_slash(self) -> Any:
        """Open one connection more than the limit."""
        return self._refused("gold/slash")

    def declare_over_limit(self) -> Any:
        """Declare one queue more than the limit."""
        try:
            self._connections[0].channel().queue_declare("c", durable=True)
        except AMQPError as error:
            return _closed(error)
        return {"declared": True}

    # Connections, channels and consumers

    def consume(self) -> None:
        """Consume two of five messages, and leave them unacknowledged."""
        connection = self._connect(name="gold-conn-1", heartbeat=60)
        consuming, publishing = connection.channel(), connection.channel()
        consuming.basic_qos(prefetch_count=2)
        arguments = {"x-single-active-consumer": True}
        consuming.queue_declare("gold-live", durable=True, arguments=arguments)
        consuming.basic_consume(
            "gold-live", self._count, consumer_tag="gold-tag", arguments={"x-priority": 7}
        )
        publishing.confirm_delivery()
        for _ in range(5):
            properties = BasicProperties(delivery_mode=2)
            publishing.basic_publish("", "gold-live", b"x" * 10, properties)
        self._channels = [consuming, publishing]

    def count_delivered(self) -> Any:
        """Count the messages that were delivered within a second."""
        self._serve(1.0)
        return {"n": self._delivered}

    def connect_again(self) -> None:
        """Open a connection that is closed by its user's name."""
        self._connect(name="gold-conn-2")

    def see_close(self) -> Any:
        """Wait until the broker closes the connection."""
        try:
            self._serve(CLOSE_SECONDS_MAX)
        except AMQPError as error:
            return _closed(error)
        return {"closed": False}

    # The firehose

    def open_tracing(self) -> None:
        """Declare the queue that traces are read from."""
        connection = self._connect()
        self._channels = [connection.channel(), connection.channel()]
        self._queue = self._channels[0].queue_declare("", exclusive=True).method.queue

    def read_traces(self) -> Any:
        """Publish two messages, get one, and return their traces."""
        reading, publishing = self._channels
        reading.queue_bind(self._queue, "amq.rabbitmq.trace", "#")
        reading.queue_declare("gold-traced", durable=True)
        reading.queue_bind("gold-traced", "amq.topic", "t.#")
        properties = BasicProperties(
            content_type="text/plain", delivery_mode=2, message_id="m1", headers={"h": 1}
        )
        publishing.basic_publish("amq.topic", "t.one", b"body", properties)
        publishing.basic_publish("amq.topic", "nowhere", b"lost", BasicProperties())
        self._serve(TRACE_SECONDS)
        publishing.basic_get("gold-traced", auto_ack=True)
        self._serve(TRACE_SECONDS)
        traces = []
        while (trace := self._trace()) is not None:
            traces.append(trace)
        return traces

    def publish_untraced(self) -> Any:
        """Publish after tracing has ended."""
        self._channels[1].basic_publish("amq.topic", "t.two", b"body")
        self._serve(TRACE_SECONDS)
        return {"more": self._trace() is not None}

    # What commands list

    def attach(self) -> None:
        """Declare queues of two types, publish to them, and consume from one."""
        channel = self._connect("ctl", name="ctl-conn").channel()
        for queue, type_ in (("q1", "classic"), ("q2", "quorum")):
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": type_})
        channel.queue_bind("q1", "amq.direct", "k")
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q1", b"x")
            channel.basic_publish("", "q2", b"x")
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("q1", self._count, consumer_tag="ctl-tag")
        self._serve(STATISTICS_SECONDS)

    def declare_transient(self) -> None:
        """Declare a queue of a kind that RabbitMQ calls deprecated."""
        self._connections[-1].channel().queue_declare("gold-transient")

    def _trace(self) -> dict[str, Any] | None:
        method, properties, body = self._channels[0].basic_get(self._queue, auto_ack=True)
        if method is None:
            return None
        return {
            "exchange": method.exchange, "routing_key": method.routing_key, "body": body.decode(),
            "content_type": properties.content_type, "delivery_mode": properties.delivery_mode,
            "headers": dict(properties.headers),
        }  # fmt: skip

    def _connect(
        self, vhost: str = "gold", user: str = "guest", name: str = "", heartbeat: int = 0
    ) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            self._address.host, self._address.port, vhost, pika.PlainCredentials(user, user),
            heartbeat=heartbeat, client_properties={"connection_name": name} if name else None,
            blocked_connection_timeout=10, socket_timeout=10,
        )  # fmt: skip
        connection = pika.BlockingConnection(parameters)
        self._connections.append(connection)
        return connection

    def _refused(self, vhost: str = "gold", user: str = "guest") -> Any:
        try:
            self._connect(vhost, user).close()
        except AMQPError as error:
            return _closed(error)
        return {"connected": True}

    def _count(self, *_: object) -> None:
        self._delivered += 1

    def _serve(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._connections[-1].process_data_events(0.1)


def _closed(error: Exception) -> dict[str, Any]:
    """Return the class, the code and the text of a refusal."""
    found: dict[str, Any] = {"exception": type(error).__name__}
    for each in (error, *error.args):
        if hasattr(each, "reply_code"):
            return found | {"code": each.reply_code, "text": each.reply_text}
    return found | {"text": str(error)}
