"""Give a red envelope for each order of 100 or more: `python -m examples.orders.red_envelope`.

The envelopes are in a database, so Kafka cannot commit them together with the offset. The program
commits the offset after the envelope, and an order has one envelope by its number: an order that is
read again after a crash changes nothing.
"""

import json
import sqlite3
from contextlib import closing, suppress
from decimal import Decimal

from examples.orders.event_loop import Events, arguments

GROUP = "red-envelopes"
LEAST = Decimal(100)
SHARE = Decimal("0.08")  # a lucky number


def opened(path: str) -> sqlite3.Connection:
    """Return the database of envelopes."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS envelope (id INTEGER PRIMARY KEY, amount TEXT)")
    return database


def give(database: sqlite3.Connection, order: bytes) -> Decimal | None:
    """Give the envelope of an order, once; return its amount, None without one."""
    event = json.loads(order)
    amount = Decimal(event["amount"])
    if amount < LEAST:
        return None
    gift = (amount * SHARE).quantize(Decimal("0.01"))
    with database:
        given = database.execute(
            "INSERT OR IGNORE INTO envelope VALUES (?, ?)", (event["id"], str(gift))
        )
    return gift if given.rowcount else None


def main() -> None:
    """Give envelopes until Ctrl-C, or until some orders have been read."""
    parser = arguments(__doc__)
    parser.add_argument("--database", default="red-envelopes.db")
    given = parser.parse_args()
    with (
        closing(opened(given.database)) as database,
        closing(Events(given.bootstrap, GROUP)) as events,
        suppress(KeyboardInterrupt),
    ):
        for order in events.until(given.count):
            value = order.value()
            assert value is not None
            gift = give(database, value)
            events.consumer.commit(order, asynchronous=False)
            if gift is not None:
                print(f"a red envelope of {gift} for order {json.loads(value)['id']}", flush=True)


if __name__ == "__main__":
    main()
