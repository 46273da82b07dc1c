"""Produce and consume through librdkafka, as most Python and C++ programs do."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Moved:
    """What a client moved, and how long that took."""

    records: int
    record_bytes: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.records / self.seconds

    @property
    def gigabytes(self) -> float:
        return self.records * self.record_bytes / 1e9


def produce(
    bootstrap: str,
    topic: str,
    *,
    acks: str,
    record_bytes: int,
    seconds: float,
    partitions: int,
    batch_bytes: int = 1_000_000,
    queue_kilobytes: int = 262_144,
    settings: Mapping[str, str] = NOTHING_MORE,
) -> Moved:
    """Produce for about `seconds`; the clock stops when the last record is acknowledged.

    `queue_kilobytes` is what may wait in the client: a slow broker has to take that too.
    """
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": queue_kilobytes,
            "log_level": 0,
            # a callback per delivered record would measure Python
            "delivery.report.only.error": True,
            "error_cb": lambda error: failed.append(error),
            "on_delivery": lambda error, _: failed.append(error),
            **settings,
        }
    )
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    value = value[:record_bytes]
    started = time.monotonic()
    sent = 0
    while time.monotonic() - started < seconds:
        for _ in range(200):
            try:
                producer.produce(topic, value, partition=sent % partitions)
            except BufferError:
                producer.poll(0.01)
                continue
            sent += 1
    if producer.flush(120) or failed:
        raise KafkaException(f"{len(failed)} failed, {len(producer)} not acknowledged")
    return Moved(sent, record_bytes, time.monotonic() - started)


def consume(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    partitions: int,
    settings: Mapping[str, str] = NOTHING_MORE,
) -> Moved:
    """Read `records` from the start of the topic; the clock starts with the first one."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 4_000_000,
            "queued.max.messages.kbytes": 131_072,
            "queued.min.messages": 500_000,
            # by default a full queue is not looked at again for a second: the client would be
            # measured asleep
            "fetch.queue.backoff.ms": 1,
            "check.crcs": False,
            "log_level": 0,
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        seen = len(consumer.consume(1, 30))
        started = time.monotonic()
        while seen < records:
            # asked for more than there is, it would wait out its 30 s
            got = consumer.consume(min(10_000, records - seen), 30)
            if not got:
                raise KafkaException(f"{seen} of {records} records, then nothing for 30 s")
            seen += len(got)
        return Moved(seen, record_bytes, time.monotonic() - started)
    finally:
        consumer.close()
