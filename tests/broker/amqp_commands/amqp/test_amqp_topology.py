"""`headrace amqp queue`, `exchange` and `binding`: what is declared and deleted beside pika."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from headrace.amqp_commands.amqp.arguments import arguments_of
from headrace.terminal.failure import UsageError
from headrace.testing import BrokerThread
from tests.support.amqp.topics import connected
from tests.support.processes.cli_kit import Asked, Says, asker, sayer
from tests.support.queues.restarts import eventually

CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
}
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG) as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[Any]:
    with connected(broker) as opened:
        yield opened


# Words


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("5", 5), ("-5", -5), ("05", "05"), ("5ms", "5ms"), ('"5"', "5"), ("0.5", 0.5),
        ("true", True), ("True", "True"), ("null", None), ("", ""), ("a=b", "a=b"),
        ("drop-head", "drop-head"), ("[1,2]", [1, 2]), ('{"a":1}', {"a": 1}), ("NaN", "NaN"),
        ("-Infinity", "-Infinity"), ("[" * 100_000, "[" * 100_000), ("7D", "7D"),
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_json_is_a_value_of_its_kind_and_all_else_a_string(
    typed: str, value: object
) -> None:
    (found,) = arguments_of((f"x-a={typed}",)).values()
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("typed", [("x-a",), ("=5",), ("x-a=1", "x-b=2", "x-a=1")])
def test_arguments_that_are_none_are_refused(typed: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"^--argument "):
        arguments_of(typed)


WRONG_WORDS = [
    ("queue declare", "NAME is missing"),
    ("queue declare q --type none", "--type"),
    ("queue declare q --argument x-queue-type=quorum", "--type says what kind of queue"),
    ("queue declare q --argument x", "must be KEY=VALUE"),
    ("queue delete --yes", "name at least one queue"),
    ("queue purge --yes", "name at least one queue"),
    (
        "queue delete q",
        "Delete queue q in vhost / with all messages? cannot ask without a terminal",
    ),
    ("queue delete q r -p v", "Delete queues q, r in vhost v with all messages?"),
    ("queue purge q", "Delete all ready messages of queue q in vhost /?"),
    ("exchange declare e", "--type is missing"),
    ("exchange declare e --type x-delayed-message", "--type"),
    ("binding create e", "DESTINATION is missing"),
    ("binding create e q --to topic", "--to"),
]


@pytest.mark.parametrize(("words", "said"), WRONG_WORDS)
def test_words_that_make_no_sense_are_refused_before_anybody_is_asked(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, told = sayer("127.0.0.1:1", capsys)("amqp", *words.split())
    assert (code, out, said in told) == (2, "", True), told


# Beside pika


def test_pika_declares_alike_what_the_command_declared_and_the_reverse(
    asked: Asked, says: Says, connection: Any
) -> None:
    channel = connection.channel()
    made = {"vhost": "/", "queue": "mails", "created": True, "messages": 0, "consumers": 0}
    words = ("--argument", "x-max-length=5", "--argument", "x-overflow=reject-publish")
    assert asked("amqp queue declare", "mails", *words) == (0, made)
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    channel.queue_declare("mails", durable=True, arguments=arguments)
    for queue_type in ("classic", "quorum", "stream"):
        assert asked("amqp queue declare", queue_type, "--type", queue_type)[0] == 0
        channel.queue_declare(queue_type, durable=True, arguments={"x-queue-type": queue_type})
    assert asked("amqp queue declare", "passing", "--transient", "--auto-delete")[0] == 0
    channel.queue_declare("passing", auto_delete=True)
    channel.queue_declare("theirs", durable=True, arguments={"x-expires": 60_000})
    declared = asked("amqp queue declare", "theirs", "--argument", "x-expires=60000")
    assert declared[1]["created"] is False
    flags = ("--type", "topic", "--internal", "--auto-delete", "--transient")
    assert asked("amqp exchange declare", "inner", *flags)[1]["created"] is True
    channel.exchange_declare("inner", "topic", internal=True, auto_delete=True)
    channel.exchange_declare("logs", "topic", durable=True)
    same = {"vhost": "/", "exchange": "logs", "created": False}
    assert asked("amqp exchange declare", "logs", "--type", "topic") == (0, same)
    code, _, told = says("amqp", "queue", "declare", "mails")
    assert code == 1
    assert "received none but current is the value '5' of type 'long'" in told
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-max-length'"):
        channel.queue_declare("mails", durable=True, arguments={"x-max-length": 6})


def test_what_the_command_binds_leads_where_it_says(asked: Asked, connection: Any) -> None:
    channel = connection.channel()
    for name in ("errors", "pdf"):
        assert asked("amqp queue declare", name)[0] == 0
    assert asked("amqp exchange declare", "logs", "--type", "topic")[0] == 0
    assert asked("amqp exchange declare", "prints", "--type", "headers")[0] == 0
    code, made = asked("amqp binding create", "logs", "errors", "--routing-key", "error.#")
    row = {
        "vhost": "/", "source": "logs", "destination_type": "queue", "destination": "errors",
        "routing_key": "error.#", "arguments": {},
    }  # fmt: skip
    assert (code, made) == (0, {**row, "created": True})
    assert asked("amqp binding create", "logs", "prints", "--to", "exchange",
                 "--routing-key", "#")[0] == 0  # fmt: skip
    words = ("--argument", "x-match=all", "--argument", "pages=3", "--argument", "owner=null")
    assert asked("amqp binding create", "prints", "pdf", *words)[1]["arguments"] == {
        "x-match": "all", "pages": 3, "owner": None,
    }  # fmt: skip
    headers = pika.BasicProperties(headers={"pages": 3, "owner": "me"})
    channel.basic_publish("logs", "error.disk", b"one", headers)
    channel.basic_publish("logs", "error.net", b"two", pika.BasicProperties(headers={"pages": 3}))
    channel.basic_publish("logs", "info.net", b"three")
    assert [channel.basic_get("errors", auto_ack=True)[2] for _ in range(3)] == [
        b"one", b"two", None,
    ]  # fmt: skip
    assert [channel.basic_get("pdf", auto_ack=True)[2] for _ in range(2)] == [b"one", None]
    listed = asked("amqp binding list")[1]
    assert row in listed
    assert asked("amqp binding delete", "prints", "pdf", *words)[1]["deleted"] == 1
    deleted = asked("amqp binding delete", "logs", "errors", "--routing-key", "error.#")
    assert deleted == (0, {**row, "deleted": 1})
    channel.basic_publish("logs", "error.disk", b"four", headers)
    assert channel.basic_get("errors", auto_ack=True)[2] is None


def test_a_queue_that_is_deleted_cancels_pikas_consumer_and_its_topic_goes(
    asked: Asked, says: Says, broker: BrokerThread, connection: Any
) -> None:
    channel = connection.channel()
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda method: cancelled.append(method.method.consumer_tag))
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "q", b"m", PERSISTENT)
    topic = "__amqp.queue.q"
    assert topic in broker.call(lambda server: list(server.broker.image.topics))
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("q", lambda *_: None, consumer_tag="mine")
    connection.process_data_events(0.2)
    code, _, told = says("amqp", "queue", "delete", "q", "--if-unused", "--yes")
    assert (code, "in use" in told) == (1, True)
    purged = [
        {"queue": "q", "purged": True, "messages": 2, "error": None},
        {"queue": "none", "purged": False, "messages": None, "error": {
            "code": "RESOURCE_NOT_FOUND", "exit_code": 4, "message":
            "NOT_FOUND - no queue 'none' in vhost '/'; see: headrace amqp queue list",
        }},
    ]  # fmt: skip
    assert asked("amqp queue purge", "q", "none", "--yes") == (4, purged)
    assert says("amqp", "queue", "delete", "q", "-y") == (0, "deleted q\n", "")
    eventually(lambda: connection.process_data_events(0.05) or cancelled == ["mine"])
    eventually(lambda: topic not in broker.call(lambda server: list(server.broker.image.topics)))
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND - no queue 'q'"):
        channel.queue_declare("q", passive=True)


def test_the_lines_say_what_was_done(says: Says, connection: Any) -> None:
    def line(words: str) -> str:
        code, said, told = says("amqp", *words.split())
        assert (code, told) == (0, ""), told
        return said.removesuffix("\n")

    assert line("vhost create shop") == "created vhost shop"
    assert line("queue declare q -p shop") == "declared queue q in vhost shop"
    again = "queue q is there already in vhost shop, and the same"
    assert line("queue declare q --vhost shop") == again
    assert line("exchange declare e --type fanout -p shop") == "declared exchange e in vhost shop"
    again = "exchange e is there already in vhost shop, and the same"
    assert line("exchange declare e --type fanout -p shop") == again
    which = "queue q to exchange e in vhost shop"
    assert line("binding create e q -p shop") == f"bound {which}"
    assert line("binding create e q -p shop") == f"there is that binding already of {which}"
    assert line("binding delete e q -p shop") == f"deleted 1 binding of {which}"
    assert line("exchange delete e -p shop --yes") == "deleted exchange e in vhost shop"
    assert line("queue purge q -p shop -y") == "purged q: 0 messages"
    assert line("queue declare r") == "declared queue r in vhost /"
    channel = connection.channel()
    for _ in range(2):
        channel.basic_publish("", "r", b"m")
    channel.queue_declare("r", passive=True)
    assert line("queue delete r -y") == "deleted r: 2 messages"
    assert line("queue rm q -p shop -y") == "deleted q"


def test_a_stream_is_not_purged_nor_deleted_by_conditions_and_its_topic_is_trimmed(
    says: Says, connection: Any
) -> None:
    assert says("amqp", "queue", "declare", "events", "--type", "stream")[0] == 0
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "events", b"m")
    for flag in ("--if-unused", "--if-empty"):
        code, _, told = says("amqp", "queue", "delete", "events", flag, "--yes")
        assert (code, "is a stream, for which if-unused and if-empty" in told) == (1, True)
    code, _, told = says("amqp", "queue", "purge", "events", "--yes")
    assert code == 1
    assert "headrace topic trim shortens a stream, by the name of its topic" in told
    assert says("topic", "trim", "__amqp.queue.events", "--to", "end", "--yes")[0] == 0
    assert channel.queue_declare("events", passive=True).method.message_count == 0
    assert says("amqp", "queue", "delete", "events", "--yes") == (0, "deleted events\n", "")


def test_what_the_command_declared_is_there_after_a_restart(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(broker: BrokerThread) -> list[Any]:
        ask = asker(sayer(broker.bootstrap, capsys))
        rows = [ask(f"amqp {kind} list")[1] for kind in ("queue", "exchange", "binding")]
        return [[row for row in found if "amq." not in str(row)] for found in rows]

    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker:
        say = sayer(broker.bootstrap, capsys)
        for words in (
            "queue declare kept --type quorum --argument x-delivery-limit=9",
            "queue declare gone --transient",
            "exchange declare logs --type topic --argument alternate-exchange=amq.fanout",
            "exchange declare inner --type headers --internal",
            "binding create logs kept --routing-key a.#",
            "binding create logs inner --to exchange --argument n=5",
        ):
            assert say("amqp", *words.split())[0] == 0
        before = listed(broker)
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker:
        say = sayer(broker.bootstrap, capsys)
        queues, exchanges, bindings = listed(broker)
        assert [row["name"] for row in queues] == ["kept"]
        assert exchanges == before[1]
        assert bindings == [row for row in before[2] if row["destination"] != "gone"]
        assert say("amqp", "exchange", "delete", "logs", "--yes")[0] == 0
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker:
        _, exchanges, bindings = listed(broker)
        assert [row["name"] for row in exchanges if row["name"]] == ["inner"]
        assert [row["source"] for row in bindings] == [""]


def test_topic_of_a_queue_is_listed_with_internal_topics_only(
    asked: Asked, connection: Any
) -> None:
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"m", pika.BasicProperties(delivery_mode=2))
    assert asked("topic list")[1] == []
    listed = asked("topic list", "--internal")[1]
    assert [row["topic"] for row in listed] == ["__amqp.declarations", "__amqp.queue.orders"]
