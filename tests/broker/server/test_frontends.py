"""Sessions by what a listener speaks: frontends beside Kafka's, imported when they are asked."""

import socket
import sys
from pathlib import Path

import pytest

from headrace.model import protocols
from headrace.testing import BrokerThread
from tests.support.amqp.echo import HEADER, amqp_frame

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0"}
MODULE = "tests.support.amqp.frontend"


def received(client: socket.socket, size: int) -> bytes:
    """Return so many bytes, or what came before the end."""
    found = b""
    while len(found) < size and (more := client.recv(size - len(found))):
        found += more
    return found


def test_each_listener_has_the_sessions_of_its_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        protocols, "ROWS", [protocols.KAFKA, protocols.AMQP._replace(frontend=MODULE)]
    )
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with BrokerThread(directory=str(tmp_path / "kafka")):
        assert MODULE not in sys.modules, "a broker without such a listener imports nothing of it"
    with BrokerThread(LISTENERS, directory=str(tmp_path / "both")) as broker:
        from tests.support.amqp.frontend import FAREWELL

        broker.create_topics("t")
        assert broker.topics() == ["t"], "Kafka's clients are served as ever"
        assert broker.call(lambda server: [each.listener for each in server.endpoints()]) == [
            "PLAINTEXT"
        ]
        port = broker.call(lambda server: server.listeners[1].port)
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            sent = amqp_frame(b"hello") + amqp_frame(bytes(100_000))
            client.sendall(HEADER + sent)
            assert received(client, len(sent)) == sent
            broker.stop()
            assert received(client, 1000) == FAREWELL, "what is pushed while it stops leaves"
