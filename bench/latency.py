"""Produce → consume latency at a steady rate, by two librdkafka clients in processes of their own.

`python -m bench.latency consume|produce …` are those processes; `measure` runs both and reads the
percentiles. Both clocks are CLOCK_MONOTONIC, which all processes of a machine share.
"""

import struct
import subprocess
import sys
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

STAMP = struct.Struct(">q")
RECORD_BYTES = 100
WARM_UP_SHARE = 0.2


@dataclass(frozen=True)
class Percentiles:
    """Milliseconds."""

    p50: float
    p99: float


def produce(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """Send `rate` records a second, each with the time of its sending."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    padding = bytes(RECORD_BYTES - STAMP.size)
    started = time.monotonic()
    for number in range(int(rate * seconds)):
        due = started + number / rate
        while (ahead := due - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(min(ahead, 0.0005))
        producer.produce(topic, STAMP.pack(time.monotonic_ns()) + padding, partition=0)
    producer.flush(30)


def consume(bootstrap: str, topic: str, count: int, seconds_max: float) -> None:
    """Print p50 and p99 in milliseconds of what arrives, the warm-up left out."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    print("ready", flush=True)
    taken: list[int] = []
    deadline = time.monotonic() + seconds_max
    while len(taken) < count and time.monotonic() < deadline:
        # One at a time: consume(n, …) returns only once it has n, or the time is over.
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            taken.append(time.monotonic_ns() - STAMP.unpack_from(message.value())[0])
    consumer.close()
    steady = sorted(taken[int(count * WARM_UP_SHARE) :])
    if len(taken) < count:
        steady = sorted(taken) + [int(seconds_max * 1e9)] * (count - len(taken))
    print(steady[len(steady) // 2] / 1e6, steady[len(steady) * 99 // 100] / 1e6)


def measure(bootstrap: str, topic: str, *, rate: int, seconds: float) -> Percentiles:
    """Percentiles at `rate` records a second; records that never came count as the time waited."""
    this = [sys.executable, "-m", "bench.latency"]
    count = int(rate * seconds)
    consumer = subprocess.Popen(
        [*this, "consume", bootstrap, topic, str(count), str(seconds * 2 + 10)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert consumer.stdout is not None
    consumer.stdout.readline()
    time.sleep(1)
    subprocess.run([*this, "produce", bootstrap, topic, str(rate), str(seconds)], check=True)
    p50, p99 = consumer.communicate()[0].split()
    return Percentiles(float(p50), float(p99))


if __name__ == "__main__":
    role, address, name, *rest = sys.argv[1:]
    if role == "produce":
        produce(address, name, int(rest[0]), float(rest[1]))
    else:
        consume(address, name, int(rest[0]), float(rest[1]))
