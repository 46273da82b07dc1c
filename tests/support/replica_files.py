"""What brokers' directories hold of a topic: every replica's bytes below its high watermark."""

from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from headrace.record import batch as wire
from tests.support.process import BrokerProcess


def committed_bytes(broker: BrokerProcess, topic: str, partition: int, below: int) -> bytes:
    """All whole batches of a replica that begin below an offset, as they lie in its segments.

    The broker may run. A log that lacks some, or has a hole, is told of by the comparison.
    """
    found = bytearray()
    places = (directory.strip() for directory in str(broker.settings["log.dirs"]).split(","))
    for place in places:
        folder = broker.directory / place / f"{topic}-{partition}"
        for segment in sorted(folder.glob("*.log")):
            data = segment.read_bytes()
            for position, header in wire.iterate(data):
                if header.base_offset < below:
                    found += data[position : position + wire.size_of(header)]
    return bytes(found)


def different_replicas(
    brokers: Sequence[BrokerProcess], bootstrap: str, topic: str, partitions: int
) -> list[str]:
    """Name the partitions of which these brokers' replicas differ below the high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    found: list[str] = []
    try:
        for partition in range(partitions):
            place = TopicPartition(topic, partition)
            _, mark = consumer.get_watermark_offsets(place, timeout=30)
            held = [committed_bytes(broker, topic, partition, mark) for broker in brokers]
            last = 0
            for _, header in wire.iterate(held[0]):
                last = header.base_offset + header.last_offset_delta + 1
            if last != mark or any(other != held[0] for other in held):
                sizes = [len(one) for one in held]
                found.append(f"{topic}-{partition} below {mark}: {sizes} bytes, ends at {last}")
    finally:
        consumer.close()
    return found
