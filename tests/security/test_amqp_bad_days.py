"""Bad input and bad days of AMQP against a broker in its own process: each client is told what
RabbitMQ tells, the broker's memory stays bounded, and a client beside them notices nothing."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
)
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    encode_frame,
)
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import BasicConsume, BasicPublish, QueueDeclare
from headrace.wire.amqp.properties import make_header
from tests.support.amqp.wire import AmqpWire
from tests.support.processes.process import BrokerProcess, free_port

MEGABYTE = 1 << 20
SLOW_SECONDS = 5.0
"""What a good client may wait at most, on a machine that has other work."""
CHANNELS = 1000


class Served:
    """A broker, and a client beside those that misbehave."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        kafka_port = free_port()
        self.broker = BrokerProcess(
            directory,
            kafka_port,
            listeners=f"PLAINTEXT://127.0.0.1:{kafka_port},AMQP://127.0.0.1:{self.port}",
            amqp_guest="true",
            amqp_memory_bytes_max=8 * MEGABYTE,
            amqp_unfinished_bytes_max=8 * MEGABYTE,
            amqp_message_max_bytes=2 * MEGABYTE,
            amqp_consumer_timeout_ms=1000,
        )
        self.broker.start()
        self.good = self.pika()
        self.good.channel(1).queue_declare("good")

    def pika(self, vhost: str = "/") -> Any:
        """Return a connection of a stock client."""
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, vhost, heartbeat=0)
        )

    def wire(self) -> AmqpWire:
        """Return a connection of bytes."""
        return AmqpWire(self.port)

    def rss(self) -> int:
        """Return the bytes of memory that the broker takes."""
        process = self.broker.process
        assert process is not None
        pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def is_well(self) -> None:
        """A client that was there before gets its message back, soon."""
        began = time.monotonic()
        channel = self.good.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "good", b"hello", mandatory=True)
        _, _, body = channel.basic_get("good", auto_ack=True)
        channel.close()
        assert body == b"hello"
        assert time.monotonic() - began < SLOW_SECONDS


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("bad-days"))
    yield served
    served.good.close()
    served.broker.stop()


def closing(wire: AmqpWire) -> ConnectionClose | ChannelClose:
    """Return what closes a channel or the connection."""
    while True:
        method = wire.method()
        if isinstance(method, ConnectionClose | ChannelClose):
            return method


def test_an_unknown_vhost_is_refused_in_rabbitmqs_words(served: Served) -> None:
    denied = pika.exceptions.ProbableAccessDeniedError
    with pytest.raises(denied, match=r"\(530\) 'NOT_ALLOWED - vhost none not found'"):
        served.pika("none")
    served.is_well()


@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        (encode_frame(FRAME_METHOD, 1, b"\0\x0a\0\x0b")[:-1] + b"\x00", 501, "FRAME_ERROR"),
        (bytes((FRAME_METHOD,)) + b"\0\1" + b"\x7f\xff\xff\xff", 501, "FRAME_ERROR"),
        (encode_frame(9, 1, b"what"), 501, "FRAME_ERROR"),
        (encode_frame(FRAME_METHOD, 1, b"\xff\xff\xff\xff"), 503, "COMMAND_INVALID"),
        (encode_frame(FRAME_BODY, 1, b"out of order"), 505, "UNEXPECTED_FRAME"),
        (encode_method(7, QueueDeclare(queue="q")), 504, "CHANNEL_ERROR"),
    ],
    ids=["no end", "endless", "no kind", "no method", "no order", "no channel"],
)
def test_a_malformed_frame_ends_its_own_connection(
    served: Served, frame: bytes, code: int, text: str
) -> None:
    wire = served.wire()
    wire.send(frame)
    told = closing(wire)
    assert isinstance(told, ConnectionClose)
    assert (told.reply_code, told.reply_text.split(" ")[0]) == (code, text), told
    wire.close()
    served.is_well()


def test_random_bytes_after_the_handshake_harm_nobody(served: Served) -> None:
    draw = random.Random(18)
    for number in range(30):
        wire = served.wire()
        wire.send(draw.randbytes(draw.randint(1, 5000)))
        wire.timeout(0.05)
        try:
            while True:
                wire.method()
        except (TimeoutError, OSError):
            pass
        wire.close()
        if number % 10 == 0:
            served.is_well()
    served.is_well()


def test_a_body_larger_than_may_be_closes_its_channel_alone(served: Served) -> None:
    wire = served.wire()
    size = 2 * MEGABYTE + 1
    wire.send(encode_method(1, BasicPublish(0, "", "good")))
    wire.send(encode_frame(FRAME_HEADER, 1, make_header(size)))
    told = closing(wire)
    assert isinstance(told, ChannelClose)
    assert (told.reply_code, told.reply_text) == (
        406,
        f"PRECONDITION_FAILED - message size {size} is larger than configured max size {size - 1}",
    )
    while size:  # what had been announced still comes, and is passed over
        piece = min(size, 100_000)
        wire.send(encode_frame(FRAME_BODY, 1, bytes(piece)))
        size -= piece
    wire.send(encode_method(1, ChannelCloseOk()))
    wire.send(encode_method(2, ChannelOpen()))
    assert isinstance(wire.method(), ChannelOpenOk)
    wire.close()
    served.is_well()


def test_bodies_that_never_come_on_a_thousand_channels_are_bounded(served: Served) -> None:
    before = served.rss()
    wire = served.wire()
    wire.send(b"".join(encode_method(number, ChannelOpen()) for number in range(2, CHANNELS + 1)))
    for _ in range(2, CHANNELS + 1):
        wire.method()
    served.is_well()
    header = make_header(MEGABYTE)
    piece = bytes(100_000)
    with suppress(OSError):  # it is closed on the way
        for number in range(1, CHANNELS + 1):
            wire.send(encode_method(number, BasicPublish(0, "", "good")))
            wire.send(encode_frame(FRAME_HEADER, number, header))
            wire.send(encode_frame(FRAME_BODY, number, piece))
    with suppress(ConnectionResetError):
        told = closing(wire)
        assert (told.reply_code, told.reply_text.split(" ")[0]) == (506, "RESOURCE_ERROR")
    served.is_well()
    assert served.rss() - before < 64 * MEGABYTE
    wire.close()


def test_a_thousand_channels_that_consume_are_served_beside_others(served: Served) -> None:
    connection = served.pika()
    got: list[bytes] = []
    for number in range(1, 1001):
        channel = connection.channel(number)
        if number == 1:
            channel.queue_declare("many", exclusive=True)
        channel.basic_consume("many", lambda c, m, p, body: got.append(body), auto_ack=True)
    served.is_well()
    for number in range(1000):
        channel.basic_publish("", "many", b"%d" % number)
    deadline = time.monotonic() + 30
    while len(got) < 1000 and time.monotonic() < deadline:
        connection.process_data_events(0.1)
    assert sorted(map(int, got)) == list(range(1000))
    connection.close()
    served.is_well()


def test_a_consumer_that_never_acknowledges_loses_its_channel_and_others_get_it(
    served: Served,
) -> None:
    wire = served.wire()
    wire.ask(QueueDeclare(queue="never", auto_delete=False))
    wire.ask(BasicConsume(queue="never", consumer_tag="c"))
    served.good.channel().basic_publish("", "never", b"once")
    _, body = wire.received()
    assert body == b"once"
    told = closing(wire)
    assert (told.reply_code, told.reply_text.split(" ")[0]) == (406, "PRECONDITION_FAILED")
    channel = served.good.channel()
    method, _, again = channel.basic_get("never", auto_ack=True)
    assert (again, method.redelivered) == (b"once", True)
    channel.queue_delete("never")
    wire.close()


def test_what_a_publisher_is_ahead_of_its_consumers_goes_to_disk_and_nothing_is_lost(
    served: Served,
) -> None:
    before = served.rss()
    count, size = 2000, 50_000
    consumer = served.pika().channel()
    consumer.queue_declare("fast")
    publisher = served.pika().channel()
    for number in range(count):
        publisher.basic_publish("", "fast", (b"%d." % number).ljust(size, b"x"))
    publisher.connection.close()
    assert served.rss() - before < 60 * MEGABYTE
    served.is_well()
    given = consumer.consume("fast", auto_ack=True, inactivity_timeout=30)
    for number, (method, _, body) in zip(range(count), given, strict=False):
        assert method is not None, f"{number} came"
        assert int(body.split(b".")[0]) == number
        assert len(body) == size
    assert served.rss() - before < 60 * MEGABYTE
    consumer.queue_delete("fast")
    consumer.connection.close()
    served.is_well()
