"""A broker with durable queues, started again and again on one directory."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.testing import BrokerThread
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ConfirmSelect
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    QueueDeclare,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.amqp.wire import AmqpWire

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
}


class Started:
    """A broker on a directory, and a client of AMQP."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self.broker = BrokerThread(settings, directory=str(directory)).start()
        port = self.broker.call(lambda server: server.listeners[1].port)
        self.client = AmqpWire(port)
        self.client.ask(ConfirmSelect())

    def stop(self) -> None:
        """Stop cleanly."""
        self.client.close()
        self.broker.stop()

    def declare(self, name: str = "q", arguments: FieldTable | None = None, **flags: bool) -> Any:
        """Declare a durable queue; returns the answer."""
        declared = QueueDeclare(queue=name, durable=True, arguments=arguments or {}, **flags)
        return self.client.ask(declared)

    def publish(
        self, *bodies: bytes, exchange: str = "", key: str = "q", **properties: Any
    ) -> None:
        """Publish, and wait for the confirms."""
        wanted = Properties(**({"delivery_mode": 2} | properties))
        for body in bodies:
            message = Message(exchange, key, make_header(len(body), wanted), body)
            self.client.send(publish_frames(1, message, 0))
            answer = self.client.method()
            assert isinstance(answer, BasicAck), answer

    def get(self, name: str = "q", *, no_ack: bool = True) -> tuple[bytes, BasicGetOk] | None:
        """Get a message."""
        self.client.send(encode_method(1, BasicGet(queue=name, no_ack=no_ack)))
        answer, body = self.client.received()
        if isinstance(answer, BasicGetEmpty):
            return None
        assert isinstance(answer, BasicGetOk), answer
        return body, answer

    def gets(self, name: str = "q") -> list[str]:
        """Get all there is; `*` behind what is redelivered."""
        found = []
        while (got := self.get(name)) is not None:
            found.append(got[0].decode() + ("*" if got[1].redelivered else ""))
        return found

    def topics(self) -> list[str]:
        """The topics that there are, but for the log of declarations."""
        topics = self.broker.call(lambda server: sorted(server.broker.image.topics))
        return [topic for topic in topics if topic != DECLARATIONS_TOPIC]

    def ready(self, name: str = "q") -> int:
        """How many messages are ready."""
        answer = self.client.ask(QueueDeclare(queue=name, passive=True))
        return int(answer.message_count)


Start = Callable[[], Started]


def starting(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker, which is stopped cleanly where it runs."""
    running: list[Started] = []

    def started() -> Started:
        while running:
            running.pop().stop()
        running.append(Started(tmp_path))
        return running[-1]

    yield started
    while running:
        running.pop().stop()


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)
