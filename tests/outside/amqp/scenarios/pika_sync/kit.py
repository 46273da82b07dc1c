"""What pika's scenarios share: connections, messages and refusals."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker

from tests.outside.amqp.address import Address
from tests.outside.matrix.scenario import WAIT_SECONDS_MAX, Scenarios, eventually, raises

scenario = Scenarios("pika")
_NUMBERS = itertools.count()
PERSISTENT = 2


class Message(NamedTuple):
    """What a consumer got."""

    method: Any
    properties: Any
    body: bytes


def unused(kind: str = "q") -> str:
    """A name that nobody has."""
    return f"{kind}-{os.getpid()}-{next(_NUMBERS)}"


def parameters(address: Address, **more: Any) -> Any:
    """How pika is told where to go; nothing waits without end."""
    return pika.ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=address.vhost,
        credentials=pika.PlainCredentials(address.user, address.password),
        **{"socket_timeout": WAIT_SECONDS_MAX, "blocked_connection_timeout": WAIT_SECONDS_MAX}
        | more,
    )


@contextmanager
def connected(address: Address, **more: Any) -> Iterator[Any]:
    """A connection, closed at the end where it is open then."""
    connection = pika.BlockingConnection(parameters(address, **more))
    try:
        yield connection
    finally:
        with suppress(AMQPError):
            if connection.is_open:
                connection.close()


@contextmanager
def channel(address: Address, **more: Any) -> Iterator[Any]:
    """A channel of a connection of its own."""
    with connected(address, **more) as connection:
        yield connection.channel()


@contextmanager
def refused(code: int, *texts: str) -> Iterator[None]:
    """What closes the channel, with this code and a text that has these in it."""
    with raises(ChannelClosedByBroker) as closed:
        yield
    _check(closed.error, code, texts)


@contextmanager
def disconnected(code: int, *texts: str) -> Iterator[None]:
    """What closes the connection, with this code and a text that has these in it."""
    with raises(ConnectionClosedByBroker) as closed:
        yield
    _check(closed.error, code, texts)


def _check(closed: Any, code: int, texts: Sequence[str]) -> None:
    assert closed.reply_code == code, closed
    missing = [text for text in texts if text not in closed.reply_text]
    assert not missing, f"{missing} not in {closed.reply_text!r}"


def declared(opened: Any, queue: str | None = None, **arguments: Any) -> str:
    """A queue that goes with its connection, unless it is declared otherwise; its name."""
    fields: dict[str, Any] = {"exclusive": True}
    for name in ("durable", "exclusive", "auto_delete"):
        if name in arguments:
            fields[name] = arguments.pop(name)
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    found = opened.queue_declare(unused() if queue is None else queue, arguments=table, **fields)
    return str(found.method.queue)


def publish(
    opened: Any, queue: str, *bodies: bytes | str, exchange: str = "", **properties: Any
) -> None:
    """Publish bodies to a queue, or by a routing key to an exchange."""
    for body in bodies:
        data = body.encode() if isinstance(body, str) else body
        given = pika.BasicProperties(**properties)
        opened.basic_publish(exchange, queue, data, given)


def get(opened: Any, queue: str, *, auto_ack: bool = True) -> Message | None:
    """A message, where there is one now."""
    method, properties, body = opened.basic_get(queue, auto_ack=auto_ack)
    return None if method is None else Message(method, properties, body)


def drained(opened: Any, queue: str) -> list[bytes]:
    """The bodies of all that is there now."""
    return [message.body for message in iter(lambda: get(opened, queue), None)]


def arrived(opened: Any, queue: str, count: int) -> list[Message]:
    """Wait for so many messages, and take them. AssertionError where they do not come."""
    found: list[Message] = []

    def _take() -> bool:
        while len(found) < count and (message := get(opened, queue)) is not None:
            found.append(message)
        return len(found) == count

    eventually(_take, f"{count} messages in {queue}")
    return found


def ready(opened: Any, queue: str) -> int:
    """How many messages wait in a queue, as declaring it passively tells."""
    return int(opened.queue_declare(queue, passive=True).method.message_count)


class Consumer:
    """A consumer on a channel, and what it got."""

    def __init__(self, opened: Any, queue: str, *, auto_ack: bool = False, **fields: Any) -> None:
        self.got: list[Message] = []
        self._channel = opened
        self.tag = opened.basic_consume(queue, self._take, auto_ack=auto_ack, **fields)

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got.append(Message(method, properties, body))

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.got]

    def wait(self, count: int) -> list[Message]:
        """Wait until it has this many. AssertionError."""

        def _enough() -> bool:
            self._channel.connection.process_data_events(0.02)
            return len(self.got) >= count

        eventually(_enough, f"{count} deliveries; {len(self.got)} came")
        return self.got

    def settle(self) -> list[Message]:
        """What it has when nothing more comes for a while."""
        self._channel.connection.process_data_events(0.3)
        return self.got
