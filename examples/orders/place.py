"""Place orders: stock and invoice at once, the event behind them.

    python -m examples.orders.place --database shop.db kettle 39.90 cup 7.50
    python -m examples.orders.place --database shop.db --publish

Stock, invoice and event must all be true or none. So the event is a row of the same transaction
(an outbox), and is deleted once the broker has acknowledged it. A program that is killed in between
publishes it again at its next start: consumers know an order by its `id`.
"""

import argparse
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

from confluent_kafka import KafkaException, Producer

TOPIC = "orders"
PUBLISH_SECONDS_MAX = 30.0
STOCK = {"kettle": 5, "cup": 100, "stove": 2}
SCHEMA = """
CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, items INTEGER CHECK (items >= 0));
CREATE TABLE IF NOT EXISTS invoice (id INTEGER PRIMARY KEY, sku TEXT, amount TEXT, at TEXT);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, event TEXT);
"""


class OutOfStockError(Exception):
    """An article has no items left."""


def opened(path: str) -> sqlite3.Connection:
    """Return the shop's database; a new one has the first stock."""
    database = sqlite3.connect(path)
    with database:
        database.executescript(SCHEMA)
        rows = STOCK.items()
        database.executemany("INSERT OR IGNORE INTO stock VALUES (?, ?)", rows)
    return database


def place(
    database: sqlite3.Connection, sku: str, amount: Decimal, phone: str, at: datetime | None = None
) -> int:
    """Take an item, write the invoice and the event, all or nothing; return the order's number."""
    time = (at or datetime.now(UTC)).isoformat(timespec="milliseconds")
    with database:
        try:
            taken = database.execute("UPDATE stock SET items = items - 1 WHERE sku = ?", (sku,))
        except sqlite3.IntegrityError:
            raise OutOfStockError(f"{sku} is out of stock") from None
        if not taken.rowcount:
            raise OutOfStockError(f"there is no {sku}")
        written = database.execute(
            "INSERT INTO invoice (sku, amount, at) VALUES (?, ?, ?)", (sku, str(amount), time)
        )
        order = int(written.lastrowid or 0)
        event = {"id": order, "sku": sku, "amount": str(amount), "phone": phone, "at": time}
        database.execute("INSERT INTO outbox VALUES (?, ?)", (order, json.dumps(event)))
    return order


def publish(database: sqlite3.Connection, bootstrap: str) -> int:
    """Publish the events that the broker has not acknowledged yet; return how many."""
    waiting = database.execute("SELECT id, event FROM outbox ORDER BY id").fetchall()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failed = []
    for order, event in waiting:
        producer.produce(
            TOPIC,
            key=str(order),
            value=event,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    if producer.flush(PUBLISH_SECONDS_MAX) or failed:
        raise KafkaException(failed[0] if failed else "the broker does not answer")
    with database:
        database.executemany("DELETE FROM outbox WHERE id = ?", [(order,) for order, _ in waiting])
    return len(waiting)


def main() -> None:
    """Place the orders of the command line and publish them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="shop.db")
    parser.add_argument("-b", "--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--phone", default="+44 20 7946 0018")
    parser.add_argument("--publish", action="store_true", help="only publish what was placed")
    parser.add_argument("orders", nargs="*", metavar="SKU AMOUNT")
    given = parser.parse_args()
    if len(given.orders) % 2 or bool(given.orders) == given.publish:
        parser.error("give pairs of SKU and AMOUNT, or --publish")
    with closing(opened(given.database)) as database:
        for sku, amount in zip(given.orders[::2], given.orders[1::2], strict=True):
            try:
                order = place(database, sku, Decimal(amount), given.phone)
                print(f"order {order}: {sku}, {amount}")
            except OutOfStockError as error:
                print(f"no order: {error}")
        print(f"published {publish(database, given.bootstrap)}")


if __name__ == "__main__":
    main()
