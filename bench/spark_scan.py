"""Rows per second of a Spark batch read into the noop sink, all columns.

Ours: `format("headrace")` through our broker. The peer: Spark's own Kafka connector against Apache
Kafka, with its jars from the pom in bench/peers/spark-connector. Session settings and records are
the same, and so is Spark: the release that the connector's jars belong to, in an environment made
at first use. Each scan runs in a process of its own, since a JVM has one set of jars.

    python -m bench.spark_scan fill 127.0.0.1:9092 scan --records 10000000
    python -m bench.spark_scan scan 127.0.0.1:9092 scan

`scan` takes the pyspark of the Python that runs it. The first round, in which the JVM compiles, is
not counted.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.spark_peer import CONNECTOR
from headrace.client.admin.topics import create_topic
from headrace.client.calls.call import HotCall, check
from headrace.client.client import Client
from headrace.client.sync import connect, run
from headrace.client.transport.port import Reply
from headrace.record.batch import Codec, Record, build
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response
from headrace.wire.kafka.hot import produce
from headrace.wire.kafka.primitives import NO_UUID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
RECORD_BYTES = 100
KEY_BYTES = 16
BATCH_RECORDS = 130
"""16 KB before compression: a Java producer's default batch."""
IN_FLIGHT = 64
SCAN_SECONDS_MAX = 600


def sample_batches(codec: Codec = Codec.LZ4) -> tuple[list[bytes], int]:
    """Some different batches of JSON-like records, compressed; and the records of each."""
    dice = random.Random(7)
    first_ms = int(time.time() * 1000)
    made = []
    for number in range(16):
        records = []
        for place in range(BATCH_RECORDS):
            value = json.dumps({
                "id": dice.randrange(10**9),
                "user": dice.choice(["alice", "bob", "carol", "dave"]),
                "amount": round(dice.random() * 1000, 2),
                "page": f"/shop/item/{dice.randrange(5000)}",
            })  # fmt: skip
            records.append(Record(
                0, first_ms + number * BATCH_RECORDS + place,
                f"key-{dice.randrange(10 ** (KEY_BYTES - 4)):0{KEY_BYTES - 4}}".encode(),
                value.ljust(RECORD_BYTES)[:RECORD_BYTES].encode(),
            ))  # fmt: skip
        made.append(build(records, compression=codec))
    return made, BATCH_RECORDS


def fill(
    bootstrap: str,
    topic: str,
    records: int,
    partitions: int = CORES,
    batches: Sequence[bytes] | None = None,
    batch_records: int = BATCH_RECORDS,
) -> int:
    """Write at least `records` records to `topic`, which exists; return their number.

    `batches`: written round robin, of `batch_records` records each; the sample's if None.
    """
    client = connect(bootstrap, client_id="bench")
    try:
        made = sample_batches()[0] if batches is None else batches
        return _write(client, topic, records, partitions, made, batch_records)
    finally:
        client.close()


def _write(
    client: Client,
    topic: str,
    records: int,
    partitions: int,
    batches: Sequence[bytes],
    batch_records: int,
) -> int:
    waiting: deque[Reply] = deque()
    link = run(client.broker(run(client.leaders([topic])).leader(topic, 0)))
    version = 9
    written = number = 0
    while written < records or waiting:
        if written < records and len(waiting) < IN_FLIGHT:
            # The protocol takes one batch per partition and request: several requests in flight.
            chosen = [batches[(number + place) % len(batches)] for place in range(partitions)]
            parts = [produce.PartitionData(place, one) for place, one in enumerate(chosen)]
            request = produce.ProduceRequest(
                None, 1, 30_000, [produce.TopicData(topic, NO_UUID, parts)]
            )
            call = HotCall(ApiKey.PRODUCE, produce.encode_request, produce.decode_response, request)
            frame = call.encode(version, link.next_correlation_id(), "bench")
            waiting.append(link.send(frame))
            number += 1
            written += batch_records * partitions
            continue
        response = run(_answer(waiting.popleft()))
        _, body = parse_response(response, ApiKey.PRODUCE, version)
        for answered in produce.decode_response(version, response[body:]).topics:
            for one in answered.partitions:
                check(one.error_code)
    return written


async def _answer(reply: Reply) -> memoryview:
    return await reply.wait(60)


def scan(bootstrap: str, topic: str, *, connector: bool = False, rounds: int = 3) -> dict[str, Any]:
    """Read the whole topic once more than `rounds` times.

    Rows, seconds of each counted round, rows/s of their median.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if connector:
        settings["spark.jars"] = ",".join(map(str, CONNECTOR.jars()))
    builder = SparkSession.builder.appName("scan").master(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    source = "kafka" if connector else "headrace"
    try:
        rows = count(spark, source, bootstrap, topic)
        seconds = [scan_once(spark, source, bootstrap, topic) for _ in range(1 + rounds)]
    finally:
        spark.stop()
    del seconds[0]
    return {"rows": rows, "seconds": seconds, "rows/s": round(rows / median(seconds))}


def _topic(spark: "SparkSession", source: str, bootstrap: str, topic: str) -> "DataFrame":
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).load()


def count(spark: "SparkSession", source: str, bootstrap: str, topic: str) -> int:
    """Return how many rows a topic has."""
    return _topic(spark, source, bootstrap, topic).count()


def scan_once(spark: "SparkSession", source: str, bootstrap: str, topic: str) -> float:
    """Read all columns of a topic into the noop sink; seconds."""
    started = time.perf_counter()
    _topic(spark, source, bootstrap, topic).write.format("noop").mode("overwrite").save()
    return round(time.perf_counter() - started, 3)


def write_parquet(spark: "SparkSession", bootstrap: str, topic: str, directory: str) -> None:
    """Write a topic, read by our source, as Spark writes Parquet by default."""
    _topic(spark, "headrace", bootstrap, topic).write.parquet(directory)


def scan_parquet(spark: "SparkSession", directory: str) -> float:
    """Read all columns of Parquet files into the noop sink; seconds."""
    started = time.perf_counter()
    spark.read.parquet(directory).write.format("noop").mode("overwrite").save()
    return round(time.perf_counter() - started, 3)


def environment(root: Path) -> dict[str, str]:
    """For a program of the checkout at `root`."""
    # No PYSPARK_PYTHON: workers run the Python that a session of ours gives them, as for a user.
    kept = {
        name: value for name, value in os.environ.items()
        if name != "SPARK_HOME" and not name.startswith("PYSPARK_")
    }  # fmt: skip
    return kept | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}


def scan_apart(
    bootstrap: str, topic: str, *, root: Path, python: Path, connector: bool = False
) -> dict[str, Any]:
    """`scan` of the checkout at `root`, run by `python` (its pyspark decides the Spark)."""
    command = [str(python), "-m", "bench.spark_scan", "scan", bootstrap, topic]
    if connector:
        command.append("--connector")
    done = subprocess.run(
        command, env=environment(root), cwd=root, capture_output=True, text=True,
        check=False, timeout=SCAN_SECONDS_MAX,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the scan failed:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows per second of a Spark batch read")
    parser.add_argument("what", choices=["fill", "scan"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=CORES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connector", action="store_true", help="Spark's own Kafka connector")
    given = parser.parse_args()
    if given.what == "fill":
        client = connect(given.bootstrap, client_id="bench")
        run(create_topic(client, given.topic, partitions=given.partitions))
        client.close()
        records = fill(given.bootstrap, given.topic, given.records, given.partitions)
        print(json.dumps({"records": records}))
        return
    figures = scan(
        given.bootstrap, given.topic, connector=given.connector, rounds=given.rounds
    )  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
