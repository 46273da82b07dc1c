"""How fast a broker compacts, and what its clients notice of it.

    python -m bench.compaction [--records 10000000] [--keys 1000000] [--peer kafka]

Both brokers get the same records (100 bytes with their key) in a topic that is not compacted; then
its policy is changed, and the clock runs until the cleaner's checkpoint covers all but the active
segment. Latency: produce → consume on another topic, at a steady rate, first idle, then meanwhile.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from bench import latency
from bench.subjects import KAFKA, OURS, Broker

TOPIC = "compacted"
SEGMENT_BYTES_MAX = 128 << 20
RECORD_BYTES = 100
RATE = 1000
PROBE_SECONDS = 6.0
WAIT_SECONDS_MAX = 600.0
_POLL_SECONDS = 0.02
_SPREAD = 2_654_435_761
CLEANER = "log.cleaner.backoff.ms=100\n"
"""Its cleaner looks for work all the time."""


REPORTED = ("records/s", "p99 ms idle", "p99 ms beside it", "p99 beside it / idle")
"""What of its figures a table shows."""


def key_of(number: int, keys: int) -> bytes:
    """Keys come again in no order a cache could like."""
    return b"key-%010d" % (number * _SPREAD % keys)


def fill(broker: Broker, records: int, keys: int) -> None:
    """Make the topic and write all records."""
    segment_bytes = min(max(records * RECORD_BYTES // 8, 1 << 20), SEGMENT_BYTES_MAX)
    config = {"segment.bytes": str(segment_bytes), "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(60)
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "acks": "1", "linger.ms": 20,
        "batch.num.messages": 1000, "batch.size": 131072,
        "queue.buffering.max.messages": 400_000, "log_level": 0,
    })  # fmt: skip
    value = bytes(RECORD_BYTES - len(key_of(0, keys)))
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, key_of(number, keys), partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records were not taken by {broker.name}")


def compact(broker: Broker) -> None:
    """Change the topic's policy."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def last_base(broker: Broker) -> int:
    """Base offset of the active segment."""
    logs = (broker.directory / "log" / f"{TOPIC}-0").glob("*.log")
    return max(int(path.stem) for path in logs)


def cleaned_to(broker: Broker) -> int:
    """What the cleaner's checkpoint says."""
    path = broker.directory / "log" / "cleaner-offset-checkpoint"
    if not path.exists():
        return 0
    entries = [line.split() for line in path.read_text().splitlines()[2:]]
    return next((int(end) for topic, _, end in entries if topic == TOPIC), 0)


def size_of(broker: Broker) -> float:
    """Megabytes of the log's segments."""
    logs = (broker.directory / "log" / f"{TOPIC}-0").glob("*.log")
    return sum(path.stat().st_size for path in logs) / 1e6


@contextmanager
def probed(broker: Broker) -> Iterator[latency.Probe]:
    """A latency probe on a topic of its own while the body runs, warm when it begins."""
    broker.create_topic("probe-busy", 1)
    probe = latency.Probe(broker.bootstrap, "probe-busy", rate=RATE, seconds_max=WAIT_SECONDS_MAX)
    try:
        time.sleep(2.0)  # its processes start, and warm up
        yield probe
    finally:
        probe.stop()


def wait_until_clean(broker: Broker, end: int) -> tuple[float, float]:
    """Have the topic compacted up to `end`: when that began, and when it was done."""
    began = time.monotonic()
    compact(broker)
    while cleaned_to(broker) < end:
        if time.monotonic() > began + WAIT_SECONDS_MAX:
            raise RuntimeError(f"{broker.name} does not compact")
        time.sleep(_POLL_SECONDS)
    return began, time.monotonic()


def measure(broker: Broker, records: int, keys: int, *, with_latency: bool) -> dict[str, float]:
    """All figures of one broker."""
    fill(broker, records, keys)
    before, end = size_of(broker), last_base(broker)
    latencies: dict[str, float] = {}
    if with_latency:
        broker.create_topic("probe-idle", 1)
        idle = latency.measure(broker.bootstrap, "probe-idle", rate=RATE, seconds=PROBE_SECONDS)
        with probed(broker) as probe:
            began, done = wait_until_clean(broker, end)
        busy = probe.percentiles(began, done)
        latencies = {
            "p99 ms idle": idle.p99,
            "p99 ms beside it": busy.p99,
            "p99 beside it / idle": busy.p99 / idle.p99,
        }
    else:
        began, done = wait_until_clean(broker, end)
    return {
        "records/s": end / (done - began),
        "seconds": done - began,
        "MB before": before,
        "MB after": size_of(broker),
        "broker RSS MB": broker.rss_megabytes(),
    } | latencies


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--peer", choices=["kafka"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--latency", action="store_true")
    given = parser.parse_args()
    subjects = [OURS, KAFKA] if given.peer else [OURS]
    for _ in range(given.rounds):
        for subject in subjects:
            with subject.broker(False, CLEANER) as broker:
                found = measure(broker, given.records, given.keys, with_latency=given.latency)
            row = " | ".join(f"{name} {figure:,.1f}" for name, figure in found.items())
            sys.stdout.write(f"{broker.name} | {row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
