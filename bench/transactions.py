"""Transactions of librdkafka: how many a second, with some producers side by side."""

import threading
import time
from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer

RECORDS = 100
RECORD_BYTES = 100
PRODUCERS = 4
INIT_SECONDS_MAX = 60


@dataclass(frozen=True)
class Committed:
    transactions: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.transactions / self.seconds


class _Writer:
    """One transactional producer in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        self._topic = topic
        self._partition = number
        self.failed: list[object] = []
        self.transactions = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-{number}",
                "linger.ms": 0,
                "log_level": 0,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: self.failed.append(error),
            }
        )
        self._producer.init_transactions(INIT_SECONDS_MAX)

    def commit_one(self) -> None:
        producer, value = self._producer, bytes(RECORD_BYTES)
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(self._topic, value, partition=self._partition)
        producer.commit_transaction()
        self.transactions += 1

    def run(self, until: float) -> None:
        try:
            while time.monotonic() < until:
                self.commit_one()
        except KafkaException as problem:
            self.failed.append(problem)


def measure(bootstrap: str, topic: str, seconds: float) -> Committed:
    """Commit transactions for about `seconds`, each with 100 records of 100 B for one partition.

    `topic` has as many partitions as there are producers.
    """
    writers = [_Writer(bootstrap, topic, number) for number in range(PRODUCERS)]
    for writer in writers:
        writer.commit_one()  # partitions are found, connections made
        writer.transactions = 0
    started = time.monotonic()
    threads = [threading.Thread(target=one.run, args=(started + seconds,)) for one in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - started
    failed = [error for writer in writers for error in writer.failed]
    if failed:
        raise RuntimeError(f"{len(failed)} failures, first: {failed[0]}")
    return Committed(sum(writer.transactions for writer in writers), took)
