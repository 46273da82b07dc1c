"""What brokers' directories hold of a topic: every replica's bytes below its high watermark."""

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.record import batch as wire
from tests.support.processes.process import BrokerProcess

SECONDS_MAX = 30
MOVING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


def folders_of(broker: BrokerProcess, name: str) -> list[Path]:
    """Directories of a broker's log directories that have a name like this, as in `glob`."""
    places = str(broker.settings["log.dirs"]).split(",")
    return [folder for place in places for folder in Path(place.strip()).glob(name)]


def committed_bytes(folder: Path, below: int) -> bytes:
    """All whole batches of a replica that begin below an offset, as they lie in its segments.

    The broker may run. A log that lacks some, or has a hole, is told of by the comparison.
    """
    found = bytearray()
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for position, header in wire.iterate(data):
            if header.base_offset < below:
                found += data[position : position + wire.size_of(header)]
    return bytes(found)


def _high_watermark(consumer: Consumer, place: TopicPartition) -> int:
    """Ask the leader, again while a leadership moves: librdkafka gives up at the first answer."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=SECONDS_MAX)[1])
        except KafkaException as error:
            if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def different_replicas(
    brokers: Sequence[BrokerProcess], bootstrap: str, topic: str, partitions: int
) -> list[str]:
    """Name the partitions of which replicas differ below the high watermark.

    Those of the brokers, of these, that have a directory of the partition.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    found: list[str] = []
    try:
        for partition in range(partitions):
            mark = _high_watermark(consumer, TopicPartition(topic, partition))
            held = [
                committed_bytes(folder, mark)
                for broker in brokers
                for folder in folders_of(broker, f"{topic}-{partition}")
            ]
            last = 0
            for _, header in wire.iterate(held[0]):
                last = header.base_offset + header.last_offset_delta + 1
            if last != mark or any(other != held[0] for other in held):
                sizes = [len(one) for one in held]
                found.append(f"{topic}-{partition} below {mark}: {sizes} bytes, ends at {last}")
    finally:
        consumer.close()
    return found
