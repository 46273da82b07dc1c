"""What is measured: the rows of the table, with the bounds they are held to.

A row names acks, durability, partitions and record size. Bounds come from what a user of the real
peer would expect of a replacement: the goals are part of the row, so that the table judges itself.
"""

from bench import share_groups, spark_scan, transactions
from bench.report import Goal
from bench.rows import (
    GROUP_MEMBERS,
    GROUP_PARTITIONS,
    OF_SENDFILE,
    SPARK_RECORDS,
    Row,
    batches,
    consume,
    end_to_end,
    everywhere,
    offset_commits,
    own_process,
    produce,
    raw_consume,
    requests,
    settle,
    share,
    spark_batch,
    transact,
)


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


def raw_rows() -> list[Row]:
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
    ]


def all_rows(beside_kafka: bool, scale: float = 1.0) -> list[Row]:
    """Every row, in the order in which they run; `scale` shrinks what is large."""
    return [
        *raw_rows(),
        *produce_rows(False),
        *produce_rows(True),
        *consume_rows(),
        Row("produce to consume, 5,000 msg/s", False, end_to_end, goals={"p99 ms": at_most(2)}),
        Row("produce to consume, 5,000 msg/s", True, end_to_end, ceilings={"p99 ms": at_most(25)}),
        Row(
            "Spark batch read, noop sink, all columns",
            False,
            spark_batch(beside_kafka, int(SPARK_RECORDS * scale)),
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
