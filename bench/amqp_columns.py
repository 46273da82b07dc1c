"""Rows per second that a decoder makes of a queue's records, with the column `amqp` and without.

One core, no broker: a million messages of 100 bytes as a broker stores them, in batches of 130.
`same`: all have the same properties, and five headers. `ids`: each a message id and a time of its
own beside them. `headers`: each a header of its own, which is read in plain Python.

    python -m bench.amqp_columns [--records 1000000] [--rounds 5]
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from statistics import median

from headrace.arrow.read.columns import COLUMNS, HEADERS
from headrace.arrow.read.decode import PartitionDecoder
from headrace.queue_stores.record_messages import batch_of_messages
from headrace.record.batch import stamp
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header

BATCH_RECORDS = 130
BODY = b"x" * 100
FEED_BATCHES = 200
"""Batches in a feed: 4 MB, as a fetch brings."""
NOW_MS = 1_700_000_000_000
PLAIN = Properties(
    content_type="application/json",
    delivery_mode=2,
    type="order",
    app_id="till",
    headers={"customer": "c-17", "tries": 1, "paid": True, "weight": 1.5, "region": "eu"},
)
KINDS: dict[str, Callable[[int], Properties]] = {
    "same": lambda number: PLAIN,
    "ids": lambda number: PLAIN._replace(
        message_id=f"{number:032x}", timestamp=NOW_MS // 1000 + number
    ),
    "headers": lambda number: PLAIN._replace(
        headers={"customer": f"c-{number}", "tries": 1, "paid": True, "weight": 1.5, "region": "eu"}
    ),
}
CHOICES = {
    "without": COLUMNS,
    "headers as bytes": (*COLUMNS, HEADERS),
    "amqp": (*COLUMNS, "amqp"),
}


def feeds(records: int, kind: Callable[[int], Properties]) -> list[bytes]:
    """The records of a queue, as fetches bring them."""
    made, feed = [], bytearray()
    for base in range(0, records, BATCH_RECORDS):
        messages = [
            Message("shop", "eu", make_header(len(BODY), kind(number)), BODY)
            for number in range(base, min(base + BATCH_RECORDS, records))
        ]
        batch = bytearray(batch_of_messages(messages, NOW_MS))
        stamp(batch, base, 0)
        feed += batch
        if base // BATCH_RECORDS % FEED_BATCHES == FEED_BATCHES - 1:
            made.append(bytes(feed))
            feed.clear()
    return [*made, bytes(feed)]


def decode(data: Sequence[bytes], columns: Sequence[str]) -> tuple[int, float]:
    """Rows and CPU seconds of decoding it all once."""
    began = time.process_time()
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=columns)
    rows = sum(batch.num_rows for feed in data for batch in decoder.feed(feed))
    rows += sum(batch.num_rows for batch in decoder.flush())
    return rows, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for kind, properties in KINDS.items():
        data = feeds(given.records, properties)
        found: dict[str, object] = {"properties": kind}
        for name, columns in CHOICES.items():
            decode(data, columns)
            seconds = []
            for _ in range(given.rounds):
                rows, burnt = decode(data, columns)
                assert rows == given.records
                seconds.append(burnt)
            found[f"{name}: rows per CPU second"] = round(given.records / median(seconds))
        print(json.dumps(found))


if __name__ == "__main__":
    main()
