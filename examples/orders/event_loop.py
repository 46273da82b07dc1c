"""The orders as Kafka consumers of a group of their own read them."""

import argparse
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Message

from examples.orders.place import TOPIC

POLL_SECONDS = 0.5


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a command line with `-b` and `--count`."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("-b", "--bootstrap", default="127.0.0.1:9092")
    made.add_argument("--count", type=int, help="end after so many orders")
    return made


class Events:
    """Orders from the first on; the group remembers the last that was committed."""

    def __init__(self, bootstrap: str, group: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.consumer = Consumer(settings)
        self.consumer.subscribe([TOPIC])

    def until(self, count: int | None) -> Iterator[Message]:
        """Yield orders; None: without end. KafkaException."""
        read = 0
        while count is None or read < count:
            record = self.consumer.poll(POLL_SECONDS)
            if record is None:
                continue
            if (error := record.error()) is not None:
                raise KafkaException(error)
            read += 1
            yield record

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()
