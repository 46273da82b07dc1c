"""JSON records of seven fields, among them an ISO time and a double of 17 digits.

1 % of the doubles are null and 1 % of the strings missing.
"""

import json
import time
from random import Random

from headrace.record.batch import Codec, Record, build

DDL = "id BIGINT, ts TIMESTAMP, user STRING, path STRING, status INT, amount DOUBLE, ok BOOLEAN"
FIELDS = ("id", "ts", "user", "path", "status", "amount", "ok")
PLACES = ("cart", "item", "pay", "list")
BATCH_RECORDS = 110
"""16 KB before compression: a Java producer's default batch."""
DISTINCT_BATCHES = 2000
"""So many records that no dictionary of a Parquet row group holds the strings."""


def lines(count: int, malformed: float = 0.0) -> list[bytes]:
    """Return JSON records; of the malformed ones some are cut off, some have a wrong type."""
    random = Random(1)
    made = []
    for number in range(count):
        moment = (
            f"2026-11-{random.randint(1, 28):02}T{random.randint(0, 23):02}:"
            f"{random.randint(0, 59):02}:{random.randint(0, 59):02}.{random.randint(0, 999):03}Z"
        )
        row: dict[str, object] = {
            "id": number * 7919,
            "ts": moment,
            "user": f"user-{random.randint(0, 99_999)}",
            "path": f"/shop/{random.choice(PLACES)}/{random.randint(0, 9999)}",
            "status": random.choice((200, 200, 200, 404, 500)),
            "amount": random.random() * 1000,
            "ok": random.random() < 0.9,
        }
        chance = random.random()
        if chance < 0.01:
            row["amount"] = None
        elif chance < 0.02:
            del row["user"]
        if random.random() < malformed:
            row["amount"] = "12,30"
        record = json.dumps(row, separators=(",", ":")).encode()
        if row["amount"] == "12,30" and number % 2:
            record = record[: len(record) // 2]
        made.append(record)
    return made


def line_batches(records: int, malformed: float = 0.0) -> list[bytes]:
    """Return batches of JSON records with lz4, for a topic of at least so many records."""
    count = min(DISTINCT_BATCHES, -(-records // BATCH_RECORDS))
    values = lines(count * BATCH_RECORDS, malformed)
    now_ms = int(time.time() * 1000)
    return [
        build(
            [
                Record(offset, now_ms + offset, None, value)
                for offset, value in enumerate(values[first : first + BATCH_RECORDS])
            ],
            compression=Codec.LZ4,
        )
        for first in range(0, len(values), BATCH_RECORDS)
    ]
