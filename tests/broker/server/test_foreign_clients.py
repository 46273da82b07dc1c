"""Clients at a listener of another protocol: recognised at once, told where theirs is spoken."""

import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from headrace.wire.amqp.first_bytes import AMQP
from headrace.wire.first_bytes import (
    HTTP,
    KAFKA,
    TLS,
    client_protocol,
    protocols,
    server_protocol,
)
from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from headrace.wire.rocketmq.frames import Serialization
from tests.support.net.net import framed
from tests.support.security.certificates import Authority

KAFKA_REQUEST = framed(b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test\x00")
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
FIRST = {
    "AMQP": b"AMQP\x00\x00\x09\x01",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": HELLO,
    "Kafka": KAFKA_REQUEST,
    "RocketMQ": b"".join(encode_command(RemotingCommand(105, 1, 0, {"topic": "t"}))),
}


def test_each_protocol_is_recognised_by_its_first_bytes_and_no_other() -> None:
    assert {row.name for row in protocols()} == set(FIRST)
    for name, first in FIRST.items():
        row = client_protocol(first[:8])
        assert row is not None
        assert row.name == name
    assert client_protocol(b"SSH-2.0-") is None
    assert client_protocol(b"\x10\x10\x00\x04MQTT") is None


@pytest.mark.parametrize(
    ("answer", "row"),
    [(b"AMQP", AMQP), (b"HTTP", HTTP), (b"\x15\x03\x03\x00", TLS), (b"\x00\x00\x00\x2a", None)],
)
def test_a_server_is_recognised_by_its_answer(answer: bytes, row: object) -> None:
    assert server_protocol(answer) is row


def test_every_version_of_every_request_of_kafka_is_recognised() -> None:
    for key in range(93):
        for version in range(20):
            head = key.to_bytes(2, "big") + version.to_bytes(2, "big")
            for size in (12, 100, 1 << 20, 100 << 20):
                assert client_protocol(size.to_bytes(4, "big") + head) is KAFKA


def test_a_rocketmq_client_is_recognised_with_both_forms_of_headers() -> None:
    for form in Serialization:
        for code in (10, 11, 34, 105, 310):
            for fields in (None, {"topic": "t" * 127, "properties": "p" * 300}):
                command = RemotingCommand(code, 1, 0, fields, b"body" * 1000)
                first = b"".join(encode_command(command, form))[:8]
                row = client_protocol(first)
                assert row is not None
                assert row.name == "RocketMQ"


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """The ports of a broker with a listener of each protocol."""
    listeners = "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,ROCKETMQ://127.0.0.1:0"
    with BrokerThread({"listeners": listeners, "insecure.listeners": "true"}) as broker:
        yield {listener.name: listener.port for listener in broker.server.listeners}


def said_to(port: int, first: bytes) -> bytes:
    """Return all bytes that a client is sent after these first ones."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(first)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    return answer


@pytest.mark.parametrize(
    ("listener", "client", "told"),
    [
        (
            "PLAINTEXT",
            "AMQP",
            "this is an AMQP client at a Kafka listener; AMQP listens on amqp://",
        ),
        ("PLAINTEXT", "HTTP", "this is an HTTP client at a Kafka listener; this broker has no"),
        (
            "PLAINTEXT",
            "TLS",
            "this is a TLS client at a Kafka listener without TLS; this broker has",
        ),
        (
            "AMQP",
            "Kafka",
            "this is a Kafka client at an AMQP listener; Kafka listens on 127.0.0.1:",
        ),
        (
            "PLAINTEXT",
            "RocketMQ",
            "this is a RocketMQ client at a Kafka listener; RocketMQ listens on 127.0.0.1:",
        ),
        (
            "ROCKETMQ",
            "Kafka",
            "this is a Kafka client at a RocketMQ listener; Kafka listens on 127.0.0.1:",
        ),
        ("ROCKETMQ", "TLS", "this is a TLS client at a RocketMQ listener without TLS; this"),
        ("AMQP", "HTTP", "this is an HTTP client at an AMQP listener; this broker has no listener"),
        ("AMQP", "TLS", "this is a TLS client at an AMQP listener without TLS; this broker has no"),
    ],
)
def test_a_client_of_another_protocol_is_told_where_it_is_spoken(
    ports: dict[str, int], caplog: pytest.LogCaptureFixture, listener: str, client: str, told: str
) -> None:
    answer = said_to(ports[listener], FIRST[client])
    (line,) = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert told in line
    if client in ("HTTP", "RocketMQ") or (listener, client) == ("PLAINTEXT", "AMQP"):
        assert told.encode() in answer
    elif listener == "AMQP":
        assert answer == FIRST["AMQP"], "as RabbitMQ answers"


def test_a_kafka_client_at_the_metrics_listener_is_told_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with BrokerThread({"metrics.listener": f"127.0.0.1:{port}"}) as broker:
        assert said_to(port, FIRST["Kafka"]) == b""
        told = f"this is a Kafka client at an HTTP listener; Kafka listens on {broker.bootstrap}"
        assert f"HTTP listens on http://127.0.0.1:{port}".encode() in said_to(
            broker.port, FIRST["HTTP"]
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            assert answer.read() == b"ok\n"
    assert told in caplog.text


def test_pika_at_a_kafka_listener_shows_where_amqp_is(ports: dict[str, int]) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", ports["PLAINTEXT"], connection_attempts=1)
    with pytest.raises(pika.exceptions.AMQPError) as raised:
        pika.BlockingConnection(parameters)
    assert f"AMQP listens on amqp://127.0.0.1:{ports['AMQP']}" in repr(raised.value)


def test_a_browser_at_a_kafka_listener_shows_the_sentence(ports: dict[str, int]) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://127.0.0.1:{ports['PLAINTEXT']}/", timeout=5)
    assert b"this is an HTTP client at a Kafka listener" in raised.value.read()
    raised.value.close()


def test_the_command_at_an_amqp_listener_ends_at_once(
    ports: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    assert command(["topic", "list", "-b", f"127.0.0.1:{ports['AMQP']}"]) == 3
    assert time.monotonic() - began < 5
    assert "this is an AMQP listener, not Kafka's; check the port" in capsys.readouterr().err


def test_the_command_without_tls_at_a_tls_listener_ends_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Authority(tmp_path).sign()
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(certificate.both)}
    with BrokerThread(settings) as broker:
        port = broker.server.listeners[0].port
        began = time.monotonic()
        assert command(["topic", "list", "-b", f"127.0.0.1:{port}"]) == 3
        assert time.monotonic() - began < 5
        assert "this listener speaks TLS; set security.protocol" in capsys.readouterr().err
        assert said_to(port, FIRST["AMQP"])
    assert "set security.protocol=SSL there" in caplog.text
    assert "this is an AMQP client at a Kafka listener with TLS; this broker has no" in caplog.text
