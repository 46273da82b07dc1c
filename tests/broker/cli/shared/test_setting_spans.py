"""Spans of time, as 1d or 1h30m, where settings have milliseconds; topics of queues in lists."""

from collections.abc import Iterator

import pika
import pytest

from headrace.terminal.broker_options import setting_pairs
from headrace.terminal.offset_positions import span_ms
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(
        {"listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0", "amqp.guest": "true"}
    ) as broker:
        yield broker


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1d", 86_400_000), ("12h", 43_200_000), ("1h30m", 5_400_000), ("90s", 90_000),
        ("1d2h3m4s", 93_784_000), ("60000", None), ("", None), ("d", None), ("1x", None),
        ("-1d", None), ("1m1h", None),
    ],
)  # fmt: skip
def test_a_span_is_days_hours_minutes_and_seconds(text: str, ms: int | None) -> None:
    assert span_ms(text) == ms


def test_only_settings_in_milliseconds_take_spans() -> None:
    given = setting_pairs("-c", ("retention.ms=1d,segment.bytes=1d,cleanup.policy=compact,delete",))
    assert given == {
        "retention.ms": "86400000", "segment.bytes": "1d", "cleanup.policy": "compact,delete",
    }  # fmt: skip
    assert setting_pairs("-c", ("retention.ms=-1",)) == {"retention.ms": "-1"}


def test_verbs_that_set_take_spans(says: Says) -> None:
    assert says("topic", "create", "t", "-c", "retention.ms=2h")[0] == 0
    assert says("config", "get", "topic", "t", "retention.ms", "--value")[1] == "7200000\n"
    assert says("topic", "alter", "t", "-c", "retention.ms=3h")[0] == 0
    assert says("config", "get", "topic", "t", "retention.ms", "--value")[1] == "10800000\n"
    code, out, _ = says("config", "set", "topic", "t", "retention.ms=1d")
    assert (code, out) == (0, "topic t: retention.ms=86400000\n")


def test_topics_of_queues_that_are_not_listed_are_counted(broker: BrokerThread, says: Says) -> None:
    assert "not listed" not in says("topic", "list")[2]
    port = broker.server.listeners[1].port
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mails", durable=True)
        channel.basic_publish("", "mails", b"x", pika.BasicProperties(delivery_mode=2))
    assert "1 topic of AMQP's queues not listed: --internal lists them" in says("topic", "list")[2]
    code, out, told = says("topic", "list", "--internal")
    assert (code, "__amqp.queue.mails" in out, told) == (0, True, "")
