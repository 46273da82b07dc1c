"""Publish changes of a table `accounts`, as Debezium does for PostgreSQL.

    python -m examples.cdc.changes "c 101 1 ann 10.00" "u 103 1 ann 7.50" "d 107 1"

A change is an operation (`c` created, `u` updated, `d` deleted, `r` read by a snapshot), its
position in the database's log, the key, and the row's other columns. Debezium sends a tombstone
behind each deletion, so that compaction removes the key.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, Producer

TOPIC = "shop.public.accounts"
FLUSH_SECONDS_MAX = 30.0
_FIELDS = {"c": 5, "u": 5, "r": 5, "d": 3}
"""Number of a change's words."""


def event_of(change: str) -> dict[str, Any]:
    """Return a change event, without its schema (`value.converter.schemas.enable=false`).

    ValueError for a change that is not written as above.
    """
    words = change.split()
    if not words or len(words) != _FIELDS.get(words[0]):
        raise ValueError(f"{change!r} is not: c|u|r POSITION ID NAME BALANCE, or d POSITION ID")
    operation, position, number, *more = words
    row = {"id": int(number), "name": more[0], "balance": more[1]} if more else None
    # By default PostgreSQL logs only the key of the old row.
    before = {"id": int(number), "name": None, "balance": None} if operation == "d" else None
    return {
        "before": before,
        "after": row,
        "source": {"connector": "postgresql", "table": "accounts", "lsn": int(position)},
        "op": operation,
        "ts_ms": 1_700_000_000_000 + int(position),
    }


def records_of(change: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield key and value of a change's records. ValueError."""
    event = event_of(change)
    key = json.dumps({"id": (event["after"] or event["before"])["id"]}).encode()
    yield key, json.dumps(event).encode()
    if event["op"] == "d":
        yield key, None


def publish(bootstrap: str, changes: list[str]) -> None:
    """Publish changes in their order; returns when all are acknowledged. KafkaException."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failed = []
    for change in changes:
        for key, value in records_of(change):
            producer.produce(
                TOPIC,
                value,
                key,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    if producer.flush(FLUSH_SECONDS_MAX) or failed:
        raise KafkaException(failed[0] if failed else "the broker does not answer")


def main() -> None:
    """Publish the changes of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-b", "--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("changes", nargs="+", metavar="CHANGE")
    given = parser.parse_args()
    try:
        publish(given.bootstrap, given.changes)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
