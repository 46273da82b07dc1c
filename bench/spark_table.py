"""`make bench-spark`: Spark on our broker, beside Spark's own connector on Apache Kafka 4.3.1.

One table: scans, sinks, micro-batches, tables. Both sides run in the release of Spark that the
connector's jars are for (jars by Maven at first use); the tables, which have no peer, in the newest
one. `--alone` leaves the peer out, and needs neither Maven nor Kafka.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import spark_peer, spark_scan
from bench.__main__ import Table
from bench.checkouts import HERE
from bench.report import Goal, print_table
from bench.sections import Found, Section
from bench.spark_batches import EMPTY
from bench.spark_process import SparkProcess
from bench.spark_tables import KINDS, SPARK_PARQUET
from bench.subjects import OURS, Broker, Kafka, Subject, in_turn
from headrace.client.admin.topics import create_topic
from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition

CONNECTOR = Subject("connector", Kafka, None)
ROUNDS_MAX = 9
SCAN_RECORDS, SINK_RECORDS, TABLE_RECORDS = 10_000_000, 2_000_000, 3_000_000
BATCHES, BATCHES_MIN = 100, 10
BATCH_RECORDS = 1_000_000
TOPIC = "bench"
OF_PARQUET, OVER_EMPTY = "of Parquet's rows/s", "p50 ms over an empty source's"


@dataclass(frozen=True)
class Side:
    """Spark and a broker; what a row is about goes through both."""

    name: str
    format: str
    broker: Broker
    spark: SparkProcess

    @property
    def ours(self) -> bool:
        return self.name == OURS.name

    def topic(self, name: str) -> str:
        """Make a topic."""
        with connect(self.broker.bootstrap, client_id="bench") as client:
            run(create_topic(client, name, partitions=spark_scan.CORES))
            # Kafka names leaders that do not lead yet: asked for offsets until they answer.
            places = [TopicPartition(name, place) for place in range(spark_scan.CORES)]
            run(list_offsets(client, dict.fromkeys(places, LATEST)))
        return name


def _python(subjects: Sequence[Subject]) -> Path:
    """The Python of all sides: one pyspark."""
    return spark_peer.CONNECTOR.python() if CONNECTOR in subjects else HERE.python


@contextmanager
def _sides(subjects: Sequence[Subject], python: Path) -> Iterator[list[Side]]:
    """Both sides up, to the end of the row."""
    with ExitStack() as stack:
        sides = []
        for subject in subjects:
            connector = subject is CONNECTOR
            broker = stack.enter_context(subject.broker(False))
            spark = stack.enter_context(SparkProcess(python, HERE.root, connector=connector))
            sides.append(Side(subject.name, "kafka" if connector else "headrace", broker, spark))
        yield sides


def scans(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A scan of one topic, and of the same rows in Parquet."""
    python = _python(subjects)
    with (
        _sides(subjects, python) as sides,
        SparkProcess(python, HERE.root, connector=False) as plain,
        tempfile.TemporaryDirectory(prefix="bench-parquet-") as place,
    ):
        for side in sides:
            bootstrap = side.broker.bootstrap
            written = spark_scan.fill(bootstrap, side.topic(TOPIC), records)
            found = side.spark.call("spark_scan", "count", side.format, bootstrap, TOPIC)
            if found != written:
                raise RuntimeError(f"{side.name}: {found} rows of {written} records")
            if side.ours:
                files = f"{place}/rows"
                side.spark.call("spark_scan", "write_parquet", bootstrap, TOPIC, files)
        for number in range(1 + rounds):
            rates: dict[str, float] = {}
            for side in in_turn(sides, number):
                cpu = side.spark.cpu_seconds()
                seconds = side.spark.call(
                    "spark_scan", "scan_once", side.format, side.broker.bootstrap, TOPIC
                )
                cpu = side.spark.cpu_seconds() - cpu
                rates[side.name] = written / seconds
                if number:  # the JVM compiles in the first
                    yield (
                        side.name,
                        {"rows/s": written / seconds, "CPU-s/M rows": cpu * 1e6 / written},
                    )
            parquet = written / plain.call("spark_scan", "scan_parquet", files)
            if number:
                share = rates[OURS.name] / parquet
                yield OURS.name, {"Parquet's rows/s": parquet, OF_PARQUET: share}


def sinks(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """Rows into a topic, each round into a new one."""
    with _sides(subjects, _python(subjects)) as sides:
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                rates: dict[str, float] = {}
                for delivery in ("exactly_once", "at_least_once"):
                    if side.ours or not rates:  # the connector has but one
                        topic = side.topic(f"{TOPIC}-{number}-{delivery}")
                        given = delivery if side.ours else ""
                        arguments = (side.format, side.broker.bootstrap, topic, given, records)
                        rate = records / side.spark.call("spark_sink", "write", *arguments)
                    rates[f"{delivery.replace('_', ' ')} rows/s"] = rate
                if number:
                    yield side.name, rates


def batches(
    records: int, count: int, async_progress: bool, subjects: Sequence[Subject], rounds: int
) -> Found:
    """Micro-batches into noop, and an empty Python source's in turn in one session."""
    with _sides(subjects, _python(subjects)) as sides:
        for side in sides:
            spark_scan.fill(side.broker.bootstrap, side.topic(TOPIC), records)
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                formats = in_turn([side.format, EMPTY] if side.ours else [side.format], number)
                arguments = (side.broker.bootstrap, TOPIC, count, async_progress)
                measured = {
                    name: side.spark.call("spark_batches", "measure", name, *arguments)
                    for name in formats
                }
                found = measured[side.format]
                if side.ours:
                    empty = measured[EMPTY]["p50 ms"]
                    found |= {"empty source's p50 ms": empty, OVER_EMPTY: found["p50 ms"] - empty}
                if number:  # the JVM compiles in the first
                    yield side.name, found


def sink_batches(count: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """Micro-batches of a sink: ours exactly once, the connector's at least once."""
    with _sides(subjects, _python(subjects)) as sides:
        for number in range(rounds):
            for side in in_turn(sides, number):
                topic = side.topic(f"{TOPIC}-{number}")
                delivery = "exactly_once" if side.ours else ""
                arguments = (side.format, side.broker.bootstrap, topic, delivery, count)
                yield side.name, side.spark.call("spark_sink", "micro_batches", *arguments)


def tables(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A topic into tables, as one batch each."""
    del subjects
    with _sides([OURS], HERE.python) as (side,):
        bootstrap = side.broker.bootstrap
        written = spark_scan.fill(bootstrap, side.topic(TOPIC), records)
        for number in range(1 + rounds):
            for kind in (*KINDS, SPARK_PARQUET):
                seconds = side.spark.call(
                    "spark_tables", "write", side.format, bootstrap, TOPIC, kind
                )
                if number:
                    yield side.name, {f"{kind} rows/s": written / seconds}


def all_sections(scale: float = 1.0) -> list[Section]:
    """Every row; `scale` shrinks all of them."""
    records = int(BATCH_RECORDS * scale)
    count = max(BATCHES_MIN, int(BATCHES * scale))
    return [
        Section(
            "scan, 100-byte records, lz4, 16 KB batches, all columns, noop",
            partial(scans, int(SCAN_RECORDS * scale)),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
            goals={"rows/s": Goal(least=3)},
            ceilings={OF_PARQUET: Goal(least=0.42)},
        ),
        Section(
            "sink, 100-byte rows, lz4, beside at least once",
            partial(sinks, int(SINK_RECORDS * scale)),
            seconds_max=600,
            rounds_max=ROUNDS_MAX,
            goals={"exactly once rows/s": Goal(least=1), "at least once rows/s": Goal(least=1)},
        ),
        *[
            Section(
                f"micro-batch of 1,000 rows, noop{', async progress' if async_progress else ''}",
                partial(batches, max(records, 200_000), count, async_progress),
                seconds_max=900,
                rounds_max=ROUNDS_MAX,
                goals={"p50 ms": Goal(most=1.15)},
                ceilings={OVER_EMPTY: Goal(most=15)},
            )
            for async_progress in (False, True)
        ],
        Section(
            "micro-batch of 1,000 rows, exactly-once sink beside at least once",
            partial(sink_batches, count),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
        ),
        Section(
            "topic to table, 100-byte records, zstd",
            partial(tables, int(TABLE_RECORDS * scale)),
            seconds_max=600,
            rounds_max=ROUNDS_MAX,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3, help="counted ones (default 3)")
    parser.add_argument(
        "--rows", default="", help="only rows whose title holds one of these, separated by ;"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="SHARE",
        help="for a try: this share of the records and batches",
    )  # fmt: skip
    parser.add_argument("--alone", action="store_true", help="without the connector and Kafka")
    parser.add_argument("--list", action="store_true", help="name the rows, and end")
    given = parser.parse_args()
    wanted = given.rows.split(";")
    sections = [
        section for section in all_sections(given.scale)
        if any(part in section.title for part in wanted)
    ]  # fmt: skip
    if given.list:
        for section in sections:
            print(f"{section.title} (at most {section.seconds_max:g} s)")
        return 0
    subjects = [OURS] if given.alone else [OURS, CONNECTOR]
    table = Table()
    for section in sections:
        table.run_section(section, subjects, given.rounds)
    print_table(
        list(table.figures.values()), table.seconds,
        rounds=given.rounds, peer=None if given.alone else CONNECTOR.name,
    )  # fmt: skip
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())
