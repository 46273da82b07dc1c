"""`headrace amqp`: what administrators type."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says

CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
}
SECRET = "planted-secret-12"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG) as running:
        yield running


def test_vhosts(says: Says, asked: Asked) -> None:
    assert asked("amqp vhost create", "shop", "--max-queues", "9") == (0, {"vhost": "shop"})
    code, _, told = says("amqp", "vhost", "create", "shop")
    assert (code, "there is a vhost 'shop' already" in told) == (1, True)
    assert says("amqp", "vhost", "alter", "shop")[0] == 2
    assert (
        asked("amqp vhost alter", "shop", "--max-queues", "none", "--max-connections", "3")[0] == 0
    )
    code, rows = asked("amqp vhost list")
    assert [(row["name"], row["max_connections"], row["max_queues"]) for row in rows] == [
        ("/", -1, -1),
        ("shop", 3, -1),
    ]
    code, listed, _ = says("amqp", "vhost", "list")
    assert listed.splitlines()[0].split() == [
        "VHOST", "CONNECTIONS", "QUEUES", "MAX-CONNECTIONS", "MAX-QUEUES", "DESCRIPTION",
    ]  # fmt: skip
    assert listed.splitlines()[2].split() == ["shop", "0", "0", "3", "-", "-"]
    assert says("amqp", "vhost", "alter", "shop", "--max-queues", "many")[0] == 2
    code, _, told = says("amqp", "vhost", "delete", "shop")
    assert (code, "--yes" in told) == (2, True)
    assert asked("amqp vhost delete", "shop", "--yes") == (0, {"vhost": "shop"})
    assert says("amqp", "vhost", "delete", "shop", "--yes")[0] != 0


def test_users_and_permissions(
    says: Says, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    made = asked("amqp user create", "alice", "--password-file", str(file), "--tag", "monitoring")
    assert made == (0, {"user": "alice", "tags": ["monitoring"]})
    code, _, told = says("amqp", "user", "create", "alice", "--password-file", str(file))
    assert (code, "there is a user alice already" in told) == (1, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
    assert asked("amqp user alter", "alice", "--password-file", "-", "--max-channels", "7")[0] == 0
    assert says("amqp", "user", "alter", "alice")[0] == 2
    code, rows = asked("amqp user list")
    alice, guest = rows
    assert (alice["tags"], alice["max_channels"], alice["password"]) == (
        ["monitoring"], 7, "SCRAM",
    )  # fmt: skip
    assert (guest["name"], guest["tags"]) == ("guest", ["administrator"])
    permission = ("alice", "^own", "", ".*")
    assert asked("amqp permission set", *permission)[0] == 0
    code, rows = asked("amqp permission list", "--user", "alice")
    assert rows == [{"user": "alice", "vhost": "/", "configure": "^own", "write": "", "read": ".*"}]
    code, _, told = says("amqp", "permission", "set", "alice", "a(?=b)", "", "")
    assert (code, "is not a valid regular expression" in told) == (1, True)
    assert asked("amqp topic-permission set", "alice", "amq.topic", "^a", "^b")[0] == 0
    assert asked("amqp topic-permission list")[1][0]["exchange"] == "amq.topic"
    assert asked("amqp topic-permission clear", "alice")[0] == 0
    assert says("amqp", "topic-permission", "list") == (0, "", "no topic permissions\n")
    assert asked("amqp permission clear", "alice")[0] == 0
    assert asked("amqp user delete", "alice", "--yes")[0] == 0
    assert [row["name"] for row in asked("amqp user list")[1]] == ["guest"]


def test_a_user_of_rabbitmqs_is_imported_by_his_hash(
    asked: Asked, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{hashed}\n"))
    assert asked("amqp user import", "bob", "--hash-file", "-")[0] == 0
    code, listed, _ = says("amqp", "user", "list", "--json")
    assert json.loads(listed)[0]["password"] == "RabbitMQ's hash"
    assert hashed not in listed
    monkeypatch.setattr("sys.stdin", io.StringIO("nonsense\n"))
    code, _, told = says("amqp", "user", "import", "carol", "--hash-file", "-")
    assert (code, "not base64" in told or "length" in told) == (1, True)


def test_what_there_is_on_a_broker(says: Says, asked: Asked) -> None:
    assert says("amqp", "queue", "list") == (0, "", "there are no queues\n")
    assert says("amqp", "connection", "list") == (0, "", "no connections\n")
    assert says("amqp", "channel", "list") == (0, "", "there are no channels\n")
    assert says("amqp", "consumer", "list") == (0, "", "no consumers\n")
    assert says("amqp", "binding", "list") == (0, "", "there are no bindings\n")
    rows = asked("amqp exchange list", "--vhost", "/")[1]
    assert [row["name"] for row in rows][:2] == ["", "amq.direct"]
    assert says("amqp", "exchange", "list", "--vhost", "none")[0] != 0
    assert says("amqp", "connection", "close")[0] == 2
    _, _, told = says("amqp", "connection", "close", "127.0.0.1:1")
    assert "there is no connection 127.0.0.1:1" in told


def test_lists_show_what_clients_made(broker: BrokerThread, says: Says, asked: Asked) -> None:
    port = broker.call(lambda server: server.listeners[1].port)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
    channel.queue_bind("q", "amq.topic", "a.#")
    channel.basic_publish("", "q", b"m")
    channel.basic_consume("q", lambda *_: None, consumer_tag="c")
    connection.process_data_events(0.2)
    (queue,) = asked("amqp queue list")[1]
    assert (queue["name"], queue["messages_unacknowledged"], queue["consumers"]) == ("q", 1, 1)
    assert asked("amqp binding list")[1][1]["source"] == "amq.topic"
    (listed,) = asked("amqp connection list", "--user", "guest")[1]
    assert asked("amqp channel list")[1][0]["connection"] == listed["name"]
    assert asked("amqp consumer list")[1][0]["tag"] == "c"
    _, table, _ = says("amqp", "queue", "list")
    assert table.splitlines()[1].split() == [
        "/", "q", "classic", "yes", "no", "running", "0", "0", "0", "0", "1", "1",
        "x-max-length=5,x-queue-type=classic",
    ]  # fmt: skip
    assert asked("amqp connection close", listed["name"]) == (0, {"closed": 1})
    with pytest.raises(ConnectionClosedByBroker, match="closed by an administrator"):
        connection.process_data_events(20)
