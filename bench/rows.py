"""How a row of the table is measured: it makes its own topic, runs, and gives figures by name."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench import (
    commits,
    latency,
    librdkafka,
    plain,
    rawload,
    rebalance,
    share_groups,
    spark_scan,
    transactions,
)
from bench.checkouts import HERE
from bench.report import Goal
from bench.spark_peer import CONNECTOR
from bench.subjects import Broker, Headrace

SECONDS = 4.0
SPARK_RECORDS = 10_000_000
GROUP_MEMBERS, GROUP_PARTITIONS = 100, 200
RAW_PASSES = 3
OF_SENDFILE = "% of sendfile"
FIXTURES = 20
"""Brokers of tests made one after the other; each takes some milliseconds."""
SHARE_FILL_SECONDS, SHARE_SECONDS = 3.0, 4.0
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One measurement. `goals` bound ours / peer, `ceilings` our own figure, by figure name."""

    name: str
    durable: bool
    measure: Callable[[Broker, str], Figures]
    partitions: int = 1
    goals: dict[str, Goal] = field(default_factory=dict)
    ceilings: dict[str, Goal] = field(default_factory=dict)
    seconds_max: float = 120
    """One round of one broker takes no longer: what is not done by then has failed."""

    @property
    def title(self) -> str:
        return f"{self.name} [{'flushed' if self.durable else 'page cache'}]"

    def run(self, broker: Broker, number: int) -> Figures:
        topic = f"bench-{number}"
        broker.create_topic(topic, self.partitions)
        try:
            return self.measure(broker, topic)
        finally:
            broker.delete_topic(topic)


def produce(record_bytes: int, acks: str) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        cpu = broker.cpu_seconds()
        moved = librdkafka.produce(
            broker.bootstrap,
            topic,
            acks=acks,
            record_bytes=record_bytes,
            seconds=SECONDS,
            partitions=1,
        )
        cpu = broker.cpu_seconds() - cpu
        return {"records/s": moved.per_second, "CPU-s/GB": cpu / moved.gigabytes}

    return measure


def consume(record_bytes: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        rawload.produce(
            broker.bootstrap,
            topic,
            partitions=1,
            connections=1,
            in_flight=5,
            record_bytes=record_bytes,
            batch_bytes=200_000,
            acks=1,
            seconds=1.5 if record_bytes > 100 else 1.0,
        )
        records = rawload.end_offsets(broker.bootstrap, topic, 1)
        cpu = broker.cpu_seconds()
        moved = librdkafka.consume(
            broker.bootstrap, topic, records=records, record_bytes=record_bytes, partitions=1
        )
        cpu = broker.cpu_seconds() - cpu
        return {"records/s": moved.per_second, "CPU-s/GB": cpu / moved.gigabytes}

    return measure


def requests(acks: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        cpu = broker.cpu_seconds()
        load = rawload.produce(
            broker.bootstrap,
            topic,
            partitions=1,
            connections=4,
            in_flight=32,
            record_bytes=100,
            batch_bytes=1,
            acks=acks,
            seconds=SECONDS,
        )
        cpu = broker.cpu_seconds() - cpu
        return {"requests/s": load.requests_per_second, "CPU-us/request": cpu / load.requests * 1e6}

    return measure


def batches(acks: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        cpu = broker.cpu_seconds()
        load = rawload.produce(
            broker.bootstrap,
            topic,
            partitions=1,
            connections=2,
            in_flight=5,
            record_bytes=1000,
            batch_bytes=1_000_000,
            acks=acks,
            seconds=SECONDS,
        )
        cpu = broker.cpu_seconds() - cpu
        return {"MB/s": load.megabytes_per_second, "CPU-s/GB": cpu / load.megabytes * 1e3}

    return measure


def everywhere(partitions: int) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        cpu = broker.cpu_seconds()
        load = rawload.produce_everywhere(
            broker.bootstrap,
            topic,
            partitions=partitions,
            in_flight=max(partitions, 32),
            seconds=SECONDS,
        )
        cpu = broker.cpu_seconds() - cpu
        return {"requests/s": load.requests_per_second, "CPU-us/request": cpu / load.requests * 1e6}

    return measure


def transact(broker: Broker, topic: str) -> Figures:
    cpu = broker.cpu_seconds()
    found = transactions.measure(broker.bootstrap, topic, SECONDS)
    cpu = broker.cpu_seconds() - cpu
    return {
        "transactions/s": found.per_second,
        "CPU-us/transaction": cpu / found.transactions * 1e6,
    }


def raw_consume(broker: Broker, topic: str) -> Figures:
    rawload.produce(
        broker.bootstrap,
        topic,
        partitions=1,
        connections=1,
        in_flight=5,
        record_bytes=10_000,
        batch_bytes=200_000,
        acks=1,
        seconds=1.5,
    )
    end = rawload.end_offsets(broker.bootstrap, topic, 1)
    files = plain.files_of(broker.directory, topic)
    load, bound = rawload.NOTHING, rawload.NOTHING
    cpu = 0.0
    for _ in range(RAW_PASSES):  # in turn: both meet the same machine
        bound += plain.receive(files, rawload.FETCH_BUFFER_BYTES)
        before = broker.cpu_seconds()
        load += rawload.fetch(
            broker.bootstrap, topic, partition=0, end=end, bytes_max=rawload.FETCH_BYTES
        )
        cpu += broker.cpu_seconds() - before
    return {
        "MB/s": load.megabytes_per_second,
        "CPU-s/GB": cpu / load.megabytes * 1e3,
        "sendfile MB/s": bound.megabytes_per_second,
        OF_SENDFILE: 100 * load.megabytes_per_second / bound.megabytes_per_second,
    }


def end_to_end(broker: Broker, topic: str) -> Figures:
    found = latency.measure(broker.bootstrap, topic, rate=5000, seconds=6.0)
    return {"p50 ms": found.p50, "p99 ms": found.p99}


def offset_commits(broker: Broker, topic: str) -> Figures:
    cpu = broker.cpu_seconds()
    load = commits.commit(broker.bootstrap, topic, SECONDS)
    cpu = broker.cpu_seconds() - cpu
    return {"requests/s": load.requests_per_second, "CPU-us/request": cpu / load.requests * 1e6}


def own_process(broker: Broker, topic: str) -> Figures:
    """Of `headrace.testing`, whatever broker the row is run beside; Kafka has no such thing."""
    del topic
    if not isinstance(broker, Headrace):
        return {}
    found: Figures = broker.checkout.call("fixture", "rounds", FIXTURES)
    return found


def spark_batch(beside_kafka: bool, records: int) -> Callable[[Broker, str], Figures]:
    """Both sides in the connector's Spark beside Kafka, otherwise each in the one it runs in."""

    def measure(broker: Broker, topic: str) -> Figures:
        ours = broker.checkout if isinstance(broker, Headrace) else None
        reader = ours or HERE
        written = spark_scan.fill(broker.bootstrap, topic, records)
        found = spark_scan.scan_apart(
            broker.bootstrap,
            topic,
            root=reader.root,
            python=CONNECTOR.python() if beside_kafka else reader.python,
            connector=ours is None,
        )
        if found["rows"] != written:
            raise RuntimeError(f"{broker.name}: {found['rows']} rows of {written} records")
        return {"rows/s": found["rows/s"]}

    return measure


def settle(kind: str) -> Callable[[Broker, str], Figures]:
    def measure(broker: Broker, topic: str) -> Figures:
        found = rebalance.measure(
            broker.bootstrap, topic, partitions=GROUP_PARTITIONS, members=GROUP_MEMBERS, kind=kind
        )
        return {"all in s": found.all_in, "one more s": found.one_more}

    return measure


def share(broker: Broker, topic: str) -> Figures:
    rawload.produce(
        broker.bootstrap,
        topic,
        partitions=share_groups.MEMBERS,
        connections=share_groups.MEMBERS,
        in_flight=5,
        record_bytes=share_groups.RECORD_BYTES,
        batch_bytes=50_000,
        acks=1,
        seconds=SHARE_FILL_SECONDS,
    )
    end = rawload.end_offsets(broker.bootstrap, topic, share_groups.MEMBERS)
    cpu = broker.cpu_seconds()
    found = share_groups.measure(broker.bootstrap, topic, SHARE_SECONDS)
    cpu = broker.cpu_seconds() - cpu
    if found.records >= end:
        raise RuntimeError(f"{broker.name}: all {end} records are read: fill for longer")
    return {"records/s": found.per_second, "CPU-us/record": cpu / found.records * 1e6}
