"""`headrace.arrow.open` beside a broker that writes: all that was acknowledged, none too early.

Real broker, real client; the broker is killed at the end, and the files are read without it.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import headrace.arrow
from tests.support.processes.process import BrokerProcess

TOPIC = "beside"
SEGMENT_BYTES = 200_000


def value_of(number: int) -> bytes:
    return b"%07d" % number * 20


class Writer:
    """Produces numbered records until told to stop; knows how many were acknowledged."""

    def __init__(self, bootstrap: str, codec: str) -> None:
        settings = {"linger.ms": 1, "compression.type": codec, "acks": "all"}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0} | settings)
        self.acknowledged = 0
        self.stopping = False
        self._thread = Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping = True
        self._thread.join()
        self._producer.purge()

    def _write(self) -> None:
        number = 0
        while not self.stopping:
            if len(self._producer) < 500:
                self._producer.produce(TOPIC, value_of(number), partition=0, on_delivery=self._told)
                number += 1
            self._producer.poll(0 if number % 50 else 0.001)
        self._producer.flush(5)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            self.acknowledged = max(self.acknowledged, offset + 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        config = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0"}
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)
        yield running


def read(broker: BrokerProcess) -> int:
    """Read all, check every value; returns how many there were."""
    reader = headrace.arrow.open(
        broker.directory / "log", TOPIC, columns=["offset", "value"], batch_rows=100
    )
    count = 0
    for batch in reader:
        offsets = batch["offset"].to_pylist()
        assert offsets == list(range(count, count + len(offsets)))
        assert batch["value"].to_pylist() == [value_of(number) for number in offsets]
        count += len(offsets)
    return count


def high_watermark(broker: BrokerProcess) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)
        assert end is not None
        return int(end)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["lz4", "none"])
def test_beside_a_broker_that_writes_all_that_was_acknowledged_is_read(
    broker: BrokerProcess, codec: str
) -> None:
    with Writer(broker.bootstrap, codec) as writer:
        looks = 0
        while looks < 15 or writer.acknowledged < 20_000:
            acknowledged = writer.acknowledged
            found = read(broker)
            assert acknowledged <= found <= high_watermark(broker)
            looks += 1
        broker.kill()
    found = read(broker)
    assert found >= writer.acknowledged
    broker.start()
    assert found <= high_watermark(broker)
    assert broker.stop() == 0
    assert read(broker) >= found
