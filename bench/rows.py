"""What is measured: each row makes its own topic, runs, and gives figures by name.

A row names acks, durability, partitions and record size. Bounds come from what a user of the real
peer would expect of a replacement: the goals are part of the row, so that the table judges itself.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import (
    commits,
    fixture,
    latency,
    librdkafka,
    plain,
    rawload,
    rebalance,
    share_groups,
    spark_scan,
    transactions,
)
from bench.report import Goal
from bench.subjects import Broker

SECONDS = 4.0
SPARK_RECORDS = 10_000_000
GROUP_MEMBERS, GROUP_PARTITIONS = 100, 200
RAW_PASSES = 3
OF_SENDFILE = "% of sendfile"
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
    """Of `headrace.testing`, whatever broker the row is run beside; a peer has no such thing."""
    del topic
    return fixture.measure() if broker.name == "headrace" else {}


def spark_batch(beside_peer: bool, records: int) -> Callable[[Broker, str], Figures]:
    """Both sides in the connector's Spark where there is a peer, otherwise in the one we run in."""

    def measure(broker: Broker, topic: str) -> Figures:
        python = spark_scan.connector_python() if beside_peer else Path(sys.executable)
        written = spark_scan.fill(broker.bootstrap, topic, records)
        found = spark_scan.scan_apart(
            broker.bootstrap, topic, python=python, connector=broker.name == "kafka"
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


def at_least(ratio: float) -> Goal:
    return Goal(least=ratio)


def at_most(ratio: float) -> Goal:
    return Goal(most=ratio)


def produce_rows(durable: bool) -> list[Row]:
    goals = {"records/s": at_least(0.9), "CPU-s/GB": at_most(0.7)}
    return [
        Row(f"librdkafka produce {size} B, acks={acks}", durable, produce(size, acks), goals=goals)
        for size in (100, 1000, 10_000)
        for acks in ("1", "all")
    ]


def group_rows() -> list[Row]:
    return [
        Row(
            f"rebalance of {GROUP_MEMBERS} members, {kind}",
            False,
            settle(kind),
            partitions=GROUP_PARTITIONS,
            # Who learns of one more at its next heartbeat is no faster here than there.
            goals={"all in s": at_most(1), "one more s": at_most(1.1)},
        )
        for kind in ("classic", "consumer")
    ] + [
        Row(
            "share group, 4 members, explicit acknowledgements",
            durable,
            share,
            partitions=share_groups.MEMBERS,
            goals={"records/s": at_least(1.5)},
        )
        for durable in (False, True)
    ]


def consume_rows() -> list[Row]:
    goals = {"records/s": at_least(0.9)}
    return [
        *[
            Row(f"librdkafka consume {size} B", False, consume(size), goals=goals)
            for size in (100, 1000, 10_000)
        ],
        Row(
            "raw-socket consumer, 10 KB records",
            False,
            raw_consume,
            ceilings={OF_SENDFILE: at_least(80)},
        ),
    ]


def small_rows() -> list[Row]:
    return [
        *[
            Row(
                "raw 4 conn x 32, OffsetCommit of one offset",
                durable,
                offset_commits,
                goals={"requests/s": at_least(3)},
            )
            for durable in (False, True)
        ],
        Row(
            "a test's broker in its own process",
            False,
            own_process,
            ceilings={"ready ms": at_most(100)},
        ),
    ]


def all_rows(beside_peer: bool, scale: float = 1.0) -> list[Row]:
    """Every row, in the order in which they run; `scale` shrinks what is large."""
    return [
        Row(
            "raw 4 conn x 32, one 100 B record, acks=1",
            False,
            requests(1),
            goals={"requests/s": at_least(3), "CPU-us/request": at_most(1 / 3)},
        ),
        Row(
            "raw 4 conn x 32, one 100 B record, acks=all",
            True,
            requests(-1),
            goals={"requests/s": at_least(8)},
        ),
        Row(
            "raw 2 conn x 5, 1 MB batches, acks=1",
            False,
            batches(1),
            goals={"MB/s": at_least(0.9), "CPU-s/GB": at_most(0.7)},
        ),
        Row(
            "raw 2 conn x 5, 1 MB batches, acks=all",
            True,
            batches(-1),
            goals={"MB/s": at_least(1.5)},
        ),
        *produce_rows(False),
        *produce_rows(True),
        *consume_rows(),
        Row("produce to consume, 5,000 msg/s", False, end_to_end, goals={"p99 ms": at_most(2)}),
        Row("produce to consume, 5,000 msg/s", True, end_to_end, ceilings={"p99 ms": at_most(25)}),
        Row(
            "Spark batch read, noop sink, all columns",
            False,
            spark_batch(beside_peer, int(SPARK_RECORDS * scale)),
            partitions=spark_scan.CORES,
            goals={"rows/s": at_least(2.5)},
            seconds_max=600,
        ),
        *[
            Row(
                "librdkafka, 4 producers, transactions of 100 records",
                durable,
                transact,
                partitions=transactions.PRODUCERS,
                goals={"transactions/s": at_least(goal)},
            )
            for durable, goal in ((False, 1.5), (True, 3))
        ],
        *group_rows(),
        *small_rows(),
        Row("raw, 1 partition, acks=all", True, everywhere(1)),
        Row(
            "raw, 1,000 partitions at once, acks=all",
            True,
            everywhere(1000),
            partitions=1000,
            goals={"requests/s": at_least(8)},
        ),
    ]


def warming_rows(durable: bool) -> list[Row]:
    """Small, large and read: what most rows are made of. Their figures are thrown away."""
    read = [] if durable else [Row("warm", False, consume(1000))]
    return [Row("warm", durable, requests(-1)), Row("warm", durable, batches(-1)), *read]
