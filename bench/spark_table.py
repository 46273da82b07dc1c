"""`make bench-spark`: Spark on our broker, beside Spark's own connector on Apache Kafka 4.3.1.

One table: scans, sinks, micro-batches, tables, typed topics. Both sides run in the release of Spark
that the connector's jars are for (jars by Maven at first use); the tables, which have no peer, in
the newest one. `--alone` leaves the peer out, and needs neither Maven nor Kafka. `--peer CHECKOUT`
takes another checkout of ours in its place: its broker, its Spark side and its environment.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import spark_scan
from bench.__main__ import LEAST_RATIO, Table
from bench.checkouts import HERE
from bench.report import Goal, print_table
from bench.sections import Found, Section
from bench.spark_batches import EMPTY
from bench.spark_process import SparkProcess
from bench.spark_sides import CONNECTOR, checkout_of, sides_of
from bench.spark_tables import KINDS, SPARK_PARQUET
from bench.spark_typed_sections import typed_sections
from bench.subjects import OURS, Subject, another, in_turn

ROUNDS_MAX = 9
SCAN_RECORDS, SINK_RECORDS, TABLE_RECORDS = 10_000_000, 2_000_000, 3_000_000
BATCHES, BATCHES_MIN = 100, 10
BATCH_RECORDS = 1_000_000
TOPIC = "bench"
OF_PARQUET, OVER_EMPTY = "of Parquet's rows/s", "p50 ms over an empty source's"


def scans(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A scan of one topic, and of the same rows in Parquet."""
    with (
        sides_of(subjects) as sides,
        SparkProcess(checkout_of(OURS, subjects).python, HERE.root, connector=False) as plain,
        tempfile.TemporaryDirectory(prefix="bench-parquet-") as place,
    ):
        for side in sides:
            bootstrap = side.broker.bootstrap
            written = spark_scan.fill(bootstrap, side.topic(TOPIC), records)
            found = side.spark.call("spark_scan", "count", side.format, bootstrap, TOPIC)
            if found != written:
                raise RuntimeError(f"{side.name}: {found} rows of {written} records")
            if side.name == OURS.name:
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
    with sides_of(subjects) as sides:
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                rates: dict[str, float] = {}
                for delivery in ("exactly_once", "at_least_once"):
                    if side.headrace or not rates:  # the connector has but one
                        topic = side.topic(f"{TOPIC}-{number}-{delivery}")
                        given = delivery if side.headrace else ""
                        arguments = (side.format, side.broker.bootstrap, topic, given, records)
                        rate = records / side.spark.call("spark_sink", "write", *arguments)
                    rates[f"{delivery.replace('_', ' ')} rows/s"] = rate
                if number:
                    yield side.name, rates


def batches(
    records: int, count: int, async_progress: bool, subjects: Sequence[Subject], rounds: int
) -> Found:
    """Micro-batches into noop, and an empty Python source's in turn in one session."""
    with sides_of(subjects) as sides:
        for side in sides:
            spark_scan.fill(side.broker.bootstrap, side.topic(TOPIC), records)
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                formats = in_turn([side.format, EMPTY] if side.headrace else [side.format], number)
                arguments = (side.broker.bootstrap, TOPIC, count, async_progress)
                measured = {
                    name: side.spark.call("spark_batches", "measure", name, *arguments)
                    for name in formats
                }
                found = measured[side.format]
                if side.headrace:
                    empty = measured[EMPTY]["p50 ms"]
                    found |= {"empty source's p50 ms": empty, OVER_EMPTY: found["p50 ms"] - empty}
                if number:  # the JVM compiles in the first
                    yield side.name, found


def sink_batches(count: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """Micro-batches of a sink: ours exactly once, the connector's at least once."""
    with sides_of(subjects) as sides:
        for number in range(rounds):
            for side in in_turn(sides, number):
                topic = side.topic(f"{TOPIC}-{number}")
                delivery = "exactly_once" if side.headrace else ""
                arguments = (side.format, side.broker.bootstrap, topic, delivery, count)
                yield side.name, side.spark.call("spark_sink", "micro_batches", *arguments)


def tables(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A topic into tables, as one batch each. The connector has none of its own."""
    with sides_of([subject for subject in subjects if subject is not CONNECTOR]) as sides:
        for side in sides:
            written = spark_scan.fill(side.broker.bootstrap, side.topic(TOPIC), records)
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                for kind in (*KINDS, SPARK_PARQUET):
                    arguments = (side.format, side.broker.bootstrap, TOPIC, kind)
                    seconds = side.spark.call("spark_tables", "write", *arguments)
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
        *typed_sections(scale),
    ]


def subjects_of(alone: bool, peer: Path | None) -> list[Subject]:
    """Return the table's columns: ours, then the connector or the checkout `peer`. ValueError."""
    if alone:
        return [OURS]
    return [OURS, CONNECTOR if peer is None else another(peer)]


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
    peer = parser.add_mutually_exclusive_group()
    peer.add_argument("--alone", action="store_true", help="without the connector and Kafka")
    peer.add_argument(
        "--peer", type=Path, metavar="CHECKOUT",
        help="beside the checkout of ours in that directory, in place of the connector",
    )  # fmt: skip
    parser.add_argument(
        "--least-ratio", type=float, default=LEAST_RATIO, metavar="RATIO",
        help="beside another checkout: a rate below this share of the other's is missed, and so is"
        f" a time above its inverse (default {LEAST_RATIO})",
    )  # fmt: skip
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
    try:
        subjects = subjects_of(given.alone, given.peer)
    except ValueError as error:
        sys.exit(f"bench-spark: --peer: {error}")
    table = Table(given.least_ratio if given.peer else None)
    for section in sections:
        table.run_section(section, subjects, given.rounds)
    print_table(
        list(table.figures.values()), table.seconds,
        rounds=given.rounds, peer=None if given.alone else subjects[1].name, absent=table.absent,
    )  # fmt: skip
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())
