"""What three replicas cost: produce with acks=all, a replica catching up, partitions at rest."""

import time
from pathlib import Path
from typing import NamedTuple

from bench import latency, librdkafka, rawload
from bench.clusters import BROKERS, Cluster, until
from bench.memory import touch_memory

PRODUCE_SECONDS = 4.0
WARM_SECONDS = 6.0
"""A JVM has compiled by then what the figures go through."""
SETTLE_SECONDS = 0.5
WRITTEN_BYTES = 4 << 30
"""As much as the brokers write of one load, or less."""
RATE, RATE_SECONDS = 5000, 6.0
FILL_SECONDS = 4.0
CATCH_UP_PARTITIONS = 8
IDLE_SECONDS = 20.0


class Load(NamedTuple):
    """What is produced."""

    record_bytes: int
    batch_bytes: int = 1_000_000
    queue_kilobytes: int = 262_144


LOADS = {
    "100 B": Load(100),
    "1 KB": Load(1000),
    # The Java client's default. Kafka flushes one of them at a time, about 1 MB/s here.
    "1 KB, 16 KB batches": Load(1000, 16_384, 32_768),
}
LEADS_FIRST = list(range(BROKERS))
Figures = dict[str, float]


def warm_up(cluster: Cluster) -> None:
    """Go through everything once."""
    cluster.create_topic("warm", 1)
    for load in LOADS.values():
        librdkafka.produce(
            cluster.bootstrap, "warm",
            acks="all", seconds=WARM_SECONDS, partitions=1, **load._asdict(),
        )  # fmt: skip
    cluster.delete_topic("warm")


def produce(cluster: Cluster, number: int) -> Figures:
    """Produce as fast as it goes; CPU time is that of all brokers."""
    found: Figures = {}
    for name, load in LOADS.items():
        topic = f"produce-{number}-{load.record_bytes}-{load.batch_bytes}"
        cluster.create_topic(topic, 1, [LEADS_FIRST])
        touch_memory(WRITTEN_BYTES)
        cpu = cluster.cpu_seconds()
        moved = librdkafka.produce(
            cluster.bootstrap, topic,
            acks="all", seconds=PRODUCE_SECONDS, partitions=1, **load._asdict(),
        )  # fmt: skip
        time.sleep(SETTLE_SECONDS)
        cpu = cluster.cpu_seconds() - cpu
        cluster.delete_topic(topic)
        found |= {
            f"{name}: records/s": moved.per_second,
            f"{name}: CPU-s/GB": cpu / moved.gigabytes,
        }
    return found


def produce_steadily(cluster: Cluster, number: int) -> Figures:
    """Produce single records at a steady rate; CPU time is that of all brokers."""
    topic = f"rate-{number}"
    cluster.create_topic(topic, 1, [LEADS_FIRST])
    cpu = cluster.cpu_seconds()
    took = latency.measure(cluster.bootstrap, topic, rate=RATE, seconds=RATE_SECONDS)
    cpu = cluster.cpu_seconds() - cpu
    cluster.delete_topic(topic)
    return {
        f"{RATE:,} msg/s: p50 ms": took.p50,
        f"{RATE:,} msg/s: p99 ms": took.p99,
        f"{RATE:,} msg/s: CPU-us/record": cpu / (RATE * RATE_SECONDS) * 1e6,
    }


def catch_up(cluster: Cluster, number: int) -> Figures:
    """A broker comes back that has nothing of what the others wrote; MB/s from its first byte on.

    It was there when the topic was made: its replicas are empty, its start is not measured.
    """
    topic, last = f"catch-up-{number}", BROKERS - 1
    cluster.create_topic(topic, CATCH_UP_PARTITIONS, [LEADS_FIRST] * CATCH_UP_PARTITIONS)
    broker = cluster.brokers[last]
    broker.process.kill()
    broker.process.wait()
    until(
        lambda: (
            (found := cluster.in_sync(topic).values()) and all(last not in isr for _, isr in found)
        ),
        "the broker that was killed out of all ISRs",
    )
    load = rawload.produce(
        cluster.brokers[0].bootstrap, topic,
        partitions=CATCH_UP_PARTITIONS, connections=2, in_flight=5,
        record_bytes=1000, batch_bytes=1_000_000, acks=1, seconds=FILL_SECONDS,
    )  # fmt: skip
    touch_memory(WRITTEN_BYTES)
    others = sum(other.cpu_seconds() for other in cluster.brokers[:last])
    broker.start()
    until(lambda: _held(broker.directory, topic), "the first bytes of the replica")
    began, own = time.monotonic(), broker.cpu_seconds()
    # Looked for on the disk first: a client that asks all the time would be measured, too.
    until(
        lambda: _held(broker.directory, topic) >= load.megabytes * 0.999e6,
        "nearly all bytes of the replica",
    )
    cluster.until_in_sync(topic, CATCH_UP_PARTITIONS)
    took = time.monotonic() - began
    cpu = broker.cpu_seconds() - own
    cpu += sum(other.cpu_seconds() for other in cluster.brokers[:last]) - others
    cluster.delete_topic(topic)
    return {"MB/s": load.megabytes / took, "CPU-s/GB": cpu / load.megabytes * 1000}


def _held(directory: Path, topic: str) -> int:
    """Return how many bytes a broker's logs of a topic hold."""
    return sum(path.stat().st_size for path in directory.glob(f"log/{topic}-*/*.log"))


def idle(cluster: Cluster, topics: int, partitions: int) -> Figures:
    """Make topics that nobody uses; CPU time of the busiest broker, in % of a core."""
    for number in range(topics):
        cluster.create_topic(f"idle-{number}", partitions)
    time.sleep(SETTLE_SECONDS)
    before = [broker.cpu_seconds() for broker in cluster.brokers]
    began = time.monotonic()
    time.sleep(IDLE_SECONDS)
    took = time.monotonic() - began
    used = [broker.cpu_seconds() - cpu for broker, cpu in zip(cluster.brokers, before, strict=True)]
    return {
        "CPU % of a broker": 100 * max(used) / took,
        "RSS MB of a broker": max(broker.rss_megabytes() for broker in cluster.brokers),
    }
