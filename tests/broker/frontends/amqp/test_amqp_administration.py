"""What administrators ask of a running broker about AMQP, by Kafka's protocol and by pika."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.admin.users import describe_users, set_credential
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism
from headrace.testing import BrokerThread
from tests.support.queues.restarts import eventually

SECONDS = 20
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "connection.failed.authentication.delay.ms": "10",
}
TEST12 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG) as running:
        yield running


def ask(broker: BrokerThread, operation: str, **question: Any) -> Any:
    """Ask as whoever comes by the open listener."""
    with connect(broker.bootstrap) as client:
        return run(ask_amqp(client, operation, **question))


def refused(broker: BrokerThread, operation: str, **question: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(ApiError) as error:
        ask(broker, operation, **question)
    return error.value.code, error.value.message or ""


def make_user(broker: BrokerThread, name: str, password: str) -> None:
    with connect(broker.bootstrap) as client:
        run(set_credential(client, name, Mechanism.SCRAM_SHA_256, Secret(password), 4096))


@contextmanager
def connected(
    broker: BrokerThread, user: str, password: str, vhost: str = "/"
) -> Iterator[pika.BlockingConnection]:
    port = broker.call(lambda server: server.listeners[1].port)
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        port,
        vhost,
        pika.PlainCredentials(user, password),
        socket_timeout=SECONDS,
        blocked_connection_timeout=SECONDS,
    )
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def test_vhosts_are_created_listed_and_deleted(broker: BrokerThread) -> None:
    ask(broker, "vhost.create", name="shop", description="orders", max_queues=7)
    assert refused(broker, "vhost.create", name="shop") == (
        ErrorCode.DUPLICATE_RESOURCE, "there is a vhost 'shop' already",
    )  # fmt: skip
    ask(broker, "vhost.alter", name="shop", max_connections=2)
    slash, shop = ask(broker, "vhost.list")
    assert slash["name"] == "/"
    assert shop == {
        "name": "shop", "description": "orders", "max_connections": 2, "max_queues": 7,
        "connections": 0, "queues": 0,
    }  # fmt: skip
    ask(broker, "vhost.delete", name="shop")
    assert names(ask(broker, "vhost.list")) == ["/"]
    assert refused(broker, "vhost.delete", name="shop")[0] is ErrorCode.RESOURCE_NOT_FOUND
    assert refused(broker, "vhost.alter", name="shop")[0] is ErrorCode.RESOURCE_NOT_FOUND
    assert refused(broker, "vhost.delete", name="/")[0] is ErrorCode.INVALID_REQUEST


def test_all_of_it_is_there_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker:
        ask(broker, "vhost.create", name="shop", max_queues=7)
        ask(broker, "user.put", name="bob", tags=["monitoring"], max_channels=9)
        ask(broker, "permission.set", user="bob", vhost="shop", configure="", write="a", read=".*")
        ask(broker, "topic-permission.set", user="bob", vhost="shop", exchange="t", write="a",
            read="b")  # fmt: skip
        before = [ask(broker, f"{kind}.list") for kind in KINDS]
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker:
        assert [ask(broker, f"{kind}.list") for kind in KINDS] == before
    assert before[2] == [
        {"user": "bob", "vhost": "shop", "configure": "", "write": "a", "read": ".*"}
    ]


KINDS = ("vhost", "user", "permission", "topic-permission")


def test_a_user_may_do_what_he_was_given_and_no_more(broker: BrokerThread) -> None:
    make_user(broker, "reader", "secret")
    with pytest.raises(ProbableAccessDeniedError, match="access to vhost '/' refused"):
        connected(broker, "reader", "secret").__enter__()
    ask(broker, "permission.set", user="reader", vhost="/", configure="^own", write="^own",
        read=".*")  # fmt: skip
    with connected(broker, "reader", "secret") as connection:
        connection.channel().queue_declare("own.q")
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().queue_declare("theirs")
        assert closed.value.args == (
            403,
            "ACCESS_REFUSED - configure access to queue 'theirs' in vhost '/' refused for user"
            " 'reader'",
        )
    ask(broker, "permission.clear", user="reader", vhost="/")
    with pytest.raises(ProbableAccessDeniedError):
        connected(broker, "reader", "secret").__enter__()


def test_what_there_is_is_listed(broker: BrokerThread) -> None:
    make_user(broker, "u", "p")
    ask(broker, "permission.set", user="u", vhost="/", configure=".*", write=".*", read=".*")
    with connected(broker, "u", "p") as connection:
        channel = connection.channel()
        channel.exchange_declare("logs", "topic")
        channel.queue_declare("q", arguments={"x-max-length": 10})
        channel.queue_bind("q", "logs", "a.*")
        for _ in range(3):
            channel.basic_publish("logs", "a.b", b"m")
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume("q", lambda *_: None, consumer_tag="c")
        connection.process_data_events(0.2)
        (queue,) = ask(broker, "queue.list", vhost="/")
        assert (queue["name"], queue["messages_ready"]) == ("q", 1)
        assert (queue["messages_unacknowledged"], queue["consumers"]) == (2, 1)
        assert queue["arguments"]["x-max-length"] == 10
        assert "logs" in names(ask(broker, "exchange.list"))
        bound = [row for row in ask(broker, "binding.list") if row["source"] == "logs"]
        assert [(row["destination"], row["routing_key"]) for row in bound] == [("q", "a.*")]
        (listed,) = ask(broker, "connection.list", user="u")
        assert (listed["vhost"], listed["channels"]) == ("/", 1)
        (listed,) = ask(broker, "channel.list")
        assert (listed["number"], listed["messages_unacknowledged"]) == (1, 2)
        (listed,) = ask(broker, "consumer.list")
        assert (listed["queue"], listed["tag"], listed["prefetch_count"]) == ("q", "c", 2)
        assert ask(broker, "consumer.list", user="nobody") == []
    assert refused(broker, "queue.list", vhost="none")[0] is ErrorCode.RESOURCE_NOT_FOUND


def test_a_user_who_is_deleted_is_gone_whole(broker: BrokerThread) -> None:
    make_user(broker, "u", "p")
    ask(broker, "permission.set", user="u", vhost="/", configure=".*", write=".*", read=".*")
    with connected(broker, "u", "p") as connection:
        channel = connection.channel()
        ask(broker, "user.delete", name="u")
        with pytest.raises(ConnectionClosedByBroker, match="user 'u' is deleted"):
            channel.queue_declare("q")
    with pytest.raises(ProbableAuthenticationError):
        connected(broker, "u", "p").__enter__()
    make_user(broker, "u", "p")
    with pytest.raises(ProbableAccessDeniedError):
        connected(broker, "u", "p").__enter__()
    ask(broker, "user.delete", name="u")
    assert refused(broker, "user.delete", name="u")[0] is ErrorCode.RESOURCE_NOT_FOUND


def test_a_vhosts_permissions_go_with_it(broker: BrokerThread) -> None:
    ask(broker, "vhost.create", name="shop")
    question = {"user": "u", "vhost": "shop"}
    ask(broker, "permission.set", **question, configure=".*", write=".*", read=".*")
    ask(broker, "topic-permission.set", **question, exchange="t", write="a", read="a")
    ask(broker, "vhost.delete", name="shop")
    ask(broker, "vhost.create", name="shop")
    assert ask(broker, "permission.list") == []
    assert ask(broker, "topic-permission.list") == []


def test_an_administrator_closes_connections(broker: BrokerThread) -> None:
    make_user(broker, "u", "p")
    ask(broker, "permission.set", user="u", vhost="/", configure=".*", write=".*", read=".*")
    with connected(broker, "u", "p") as connection:
        channel = connection.channel()
        (listed,) = ask(broker, "connection.list")
        assert ask(broker, "connection.close", name="127.0.0.1:1") == 0
        assert ask(broker, "connection.close", name=listed["name"], reason="enough") == 1
        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
            channel.queue_declare("q")


def test_rabbitmqs_hash_is_good_once_and_then_a_credential(broker: BrokerThread) -> None:
    algorithm = "rabbit_password_hashing_sha256"
    ask(broker, "user.put", name="bob", hash=TEST12, algorithm=algorithm)
    ask(broker, "permission.set", user="bob", vhost="/", configure="", write="", read="")
    assert ask(broker, "user.list")[0]["hashed"]
    with pytest.raises(ProbableAuthenticationError):
        connected(broker, "bob", "test1").__enter__()
    with connected(broker, "bob", "test12"):
        pass
    eventually(lambda: not ask(broker, "user.list")[0]["hashed"])
    with connect(broker.bootstrap) as client:
        (user,) = run(describe_users(client))
    assert (user.name, set(user.credentials)) == ("bob", {"SCRAM-SHA-256", "SCRAM-SHA-512"})
    assert not ask(broker, "user.list")[0]["hashed"]
    with connected(broker, "bob", "test12"):
        pass
    with pytest.raises(ProbableAuthenticationError):
        connected(broker, "bob", "test1").__enter__()


NO_QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("vhost.create", {}),
    ("vhost.create", {"name": "a\nb"}),
    ("vhost.create", {"name": 7}),
    ("vhost.create", {"name": "v", "max_queues": "many"}),
    ("user.put", {"name": "u", "tags": ["a,b"]}),
    ("user.put", {"name": "u", "hash": "short", "algorithm": "rabbit_password_hashing_sha256"}),
    ("user.put", {"name": "u", "hash": TEST12}),
    ("permission.set", {"user": "u", "vhost": "/", "configure": "a"}),
    ("nonsense", {}),
]


def test_a_question_that_is_none_is_refused_in_words(broker: BrokerThread) -> None:
    for operation, question in NO_QUESTIONS:
        code, text = refused(broker, operation, **question)
        assert code is ErrorCode.INVALID_REQUEST, (operation, question)
        assert text
    assert ask(broker, "user.list") == []
    assert names(ask(broker, "vhost.list")) == ["/"]


def test_an_expression_of_another_language_is_refused(broker: BrokerThread) -> None:
    code, text = refused(
        broker, "permission.set", user="u", vhost="/", configure="a(?=b)", write="", read=""
    )
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "the configure permission of user 'u'" in text
    assert ask(broker, "user.list") == []


def test_changes_have_a_line_in_the_audit_log_and_hashes_have_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO), BrokerThread(CONFIG) as broker:
        algorithm = "rabbit_password_hashing_sha256"
        ask(broker, "user.put", name="bob", hash=TEST12, algorithm=algorithm)
        ask(broker, "user.list")
        refused(broker, "vhost.delete", name="none")
    told = [line for line in caplog.text.splitlines() if "AMQP_ADMINISTRATION" in line]
    assert len(told) == 2
    assert "user.put" in told[0]
    assert "RESOURCE_NOT_FOUND" in told[1]
    assert TEST12 not in caplog.text


def test_each_change_of_a_vhosts_topology_has_its_line_in_the_audit_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = {"vhost": "/", "source": "e", "to": "queue", "destination": "q", "routing_key": "k"}
    with caplog.at_level(logging.INFO), BrokerThread(CONFIG) as broker:
        ask(broker, "queue.declare", vhost="/", name="q", durable=True)
        ask(broker, "exchange.declare", vhost="/", name="e", type="topic")
        ask(broker, "binding.create", **ends)
        ask(broker, "queue.purge", vhost="/", name="q")
        ask(broker, "binding.delete", **ends)
        ask(broker, "exchange.delete", vhost="/", name="e")
        ask(broker, "queue.delete", vhost="/", name="q")
        refused(broker, "queue.delete", vhost="/", name="q")
    told = [line for line in caplog.text.splitlines() if "AMQP_ADMINISTRATION" in line]
    assert [
        operation
        for line in told
        for operation in line.replace('"', " ").split()
        if operation.startswith("operation=")
    ] == [
        f"operation={name}"
        for name in (
            "queue.declare", "exchange.declare", "binding.create", "queue.purge",
            "binding.delete", "exchange.delete", "queue.delete", "queue.delete",
        )
    ]  # fmt: skip
    assert all("vhost=/" in line and "=q" in line for line in told if "exchange" not in line)
    assert "RESOURCE_NOT_FOUND" in told[-1]


def test_a_broker_without_a_listener_of_amqp_says_so() -> None:
    with BrokerThread({"listeners": "PLAINTEXT://127.0.0.1:0"}) as broker:
        code, text = refused(broker, "vhost.list")
    assert (code, text) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "this broker has no AMQP listener: ask a broker that has one",
    )  # fmt: skip
