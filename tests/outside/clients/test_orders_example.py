"""The orders example: each program as a reader runs it, killed programs, and events sent twice."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.orders import payment, place, red_envelope, sms
from examples.orders.event_loop import Events
from headrace.testing import BrokerThread

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 60


class Shop(NamedTuple):
    """A broker of both protocols with the example's topics, and a directory of its programs."""

    bootstrap: str
    url: str
    place: Path

    def program(self, name: str, *words: str) -> list[str]:
        """Run a program of the example to its end; return the lines that it has printed."""
        ended = subprocess.run(
            [sys.executable, "-m", f"examples.orders.{name}", *words],
            cwd=self.place,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS_MAX,
        )
        return ended.stdout.splitlines()

    def placed(self, *orders: str) -> None:
        self.program("place", "-b", self.bootstrap, *orders)

    def records(self, topic: str, count: int) -> list[Message]:
        """Read a topic from its first record on, as a consumer that waits for so many."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{topic}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[Message] = consumer.consume(count + 1, timeout=5)
        consumer.close()
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    config = {"listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0", "amqp.guest": "true"}
    with BrokerThread(config) as broker:
        port = broker.call(lambda server: server.listeners[1].port)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        made = admin.create_topics([NewTopic(name, 1, 1) for name in ("orders", "payments")])
        for future in made.values():
            future.result(30)
        yield Shop(broker.bootstrap, f"amqp://guest:guest@127.0.0.1:{port}/%2F", tmp_path)


def value_of(record: Message) -> dict[str, object]:
    found: dict[str, object] = json.loads(record.value() or b"")
    return found


def test_an_event_is_published_behind_stock_and_invoice(shop: Shop) -> None:
    said = shop.program("place", "-b", shop.bootstrap, "stove", "900", "piano", "1")
    assert said == ["order 1: stove, 900", "no order: there is no piano", "published 1"]
    (event,) = shop.records("orders", 1)
    assert (event.key(), value_of(event)["sku"]) == (b"1", "stove")
    database = sqlite3.connect(shop.place / "shop.db")
    assert database.execute("SELECT items FROM stock WHERE sku = 'stove'").fetchone() == (1,)
    assert database.execute("SELECT sku, amount FROM invoice").fetchall() == [("stove", "900")]
    assert database.execute("SELECT * FROM outbox").fetchall() == []
    database.close()


def test_an_order_without_stock_leaves_no_trace(tmp_path: Path) -> None:
    database = place.opened(str(tmp_path / "shop.db"))
    for _ in range(2):
        place.place(database, "stove", Decimal(900), "+44")
    with pytest.raises(place.OutOfStockError, match="stove is out of stock"):
        place.place(database, "stove", Decimal(900), "+44")
    for table in ("invoice", "outbox"):
        assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,)
    database.close()


def test_an_event_that_no_broker_took_is_published_by_the_next_start(shop: Shop) -> None:
    database = place.opened(str(shop.place / "shop.db"))
    place.place(database, "cup", Decimal("7.50"), "+44")
    place.PUBLISH_SECONDS_MAX, before = 0.2, place.PUBLISH_SECONDS_MAX
    try:
        with pytest.raises(KafkaException, match="does not answer"):
            place.publish(database, "127.0.0.1:1")
    finally:
        place.PUBLISH_SECONDS_MAX = before
    assert database.execute("SELECT id FROM outbox").fetchall() == [(1,)]
    database.close()
    assert shop.program("place", "-b", shop.bootstrap, "--publish") == ["published 1"]
    assert [record.key() for record in shop.records("orders", 1)] == [b"1"]


def test_a_red_envelope_is_given_once_by_order(shop: Shop) -> None:
    shop.placed("cup", "99.99", "stove", "100")
    said = shop.program("red_envelope", "-b", shop.bootstrap, "--count", "2")
    assert said == ["a red envelope of 8.00 for order 2"]
    database = red_envelope.opened(str(shop.place / "red-envelopes.db"))
    # The event again, as after a crash before the commit of its offset.
    again = json.dumps({"id": 2, "amount": "100"}).encode()
    assert red_envelope.give(database, again) is None
    assert database.execute("SELECT * FROM envelope").fetchall() == [(2, "8.00")]
    database.close()


def test_a_red_envelope_program_continues_behind_its_last_order(shop: Shop) -> None:
    shop.placed("stove", "100")
    shop.program("red_envelope", "-b", shop.bootstrap, "--count", "1")
    shop.placed("stove", "200")
    said = shop.program("red_envelope", "-b", shop.bootstrap, "--count", "1")
    assert said == ["a red envelope of 16.00 for order 2"]


def test_a_message_is_sent_for_each_order_also_after_a_restart(shop: Shop) -> None:
    shop.placed("cup", "7.50", "kettle", "39.90")
    words = ("--url", shop.url, "--count", "1")
    assert shop.program("sms", *words) == ["+44 20 7946 0018: thank you for order 1, cup"]
    assert sms.next_offset(shop.place / "sms.offset") == 1
    assert shop.program("sms", *words) == ["+44 20 7946 0018: thank you for order 2, kettle"]


def test_a_payment_is_published_once_for_each_order(shop: Shop) -> None:
    shop.placed("cup", "7.50", "kettle", "39.90")
    assert shop.program("payment", "-b", shop.bootstrap, "--count", "1") == ["order 1 is paid"]
    assert shop.program("payment", "-b", shop.bootstrap, "--count", "1") == ["order 2 is paid"]
    assert [value_of(record)["id"] for record in shop.records("payments", 2)] == [1, 2]


def test_a_payment_whose_offset_is_not_committed_is_not_visible(shop: Shop) -> None:
    shop.placed("cup", "7.50")
    events = Events(shop.bootstrap, payment.GROUP)
    producer = Producer({"bootstrap.servers": shop.bootstrap, "transactional.id": "orders-payment"})
    producer.init_transactions(30)
    producer.begin_transaction()
    (order,) = list(events.until(1))
    producer.produce(payment.PAYMENTS, payment.payment_of(order.value() or b""))
    producer.flush(30)  # on the broker, and then the program dies
    events.close()
    assert shop.program("payment", "-b", shop.bootstrap, "--count", "1") == ["order 1 is paid"]
    assert [value_of(record)["id"] for record in shop.records("payments", 1)] == [1]
