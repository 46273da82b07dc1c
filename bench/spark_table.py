"""`make bench-spark`: what reading topics in Spark costs, on a broker of its own.

A scan of all columns, and micro-batches of 1,000 rows beside an empty Python source's.
"""

import argparse
import json
import os
import subprocess
from typing import Any

from bench import spark_scan
from bench.checkouts import HERE
from bench.subjects import Broker, Headrace

SCAN_RECORDS = 10_000_000
BATCH_RECORDS = 1_000_000
BATCHES_SECONDS_MAX = 1800


def scan_row(broker: Broker, records: int) -> dict[str, Any]:
    """Rows per second into the noop sink."""
    _fill(broker, "scan", records)
    return spark_scan.scan_apart(broker.bootstrap, "scan", root=HERE.root, python=HERE.python)


def batches_row(broker: Broker, records: int, *, async_progress: bool) -> dict[str, Any]:
    """Milliseconds of micro-batches, ours and an empty source's."""
    topic = f"batches-{async_progress}".lower()
    _fill(broker, topic, records)
    command = [str(HERE.python), "-m", "bench.spark_batches", broker.bootstrap, topic]
    if async_progress:
        command.append("--async-progress")
    environment = os.environ | {"PYTHONPATH": f"{HERE.root / 'src'}{os.pathsep}{HERE.root}"}
    done = subprocess.run(
        command, env=environment, cwd=HERE.root, capture_output=True, text=True, check=False,
        timeout=BATCHES_SECONDS_MAX,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the micro-batches failed:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _fill(broker: Broker, topic: str, records: int) -> None:
    broker.create_topic(topic, spark_scan.CORES)
    spark_scan.fill(broker.bootstrap, topic, records)


def main() -> None:
    parser = argparse.ArgumentParser(description="What reading topics in Spark costs")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records")
    given = parser.parse_args()
    with Headrace(durable=False) as broker:
        found = scan_row(broker, int(SCAN_RECORDS * given.scale))
        print(f"scan of {found['rows']:,} records: {found['rows/s'] / 1e6:.2f} M rows/s")
        for async_progress in (False, True):
            rows = batches_row(
                broker, int(BATCH_RECORDS * given.scale), async_progress=async_progress
            )
            ours, empty = rows["headrace"], rows["empty"]
            print(
                f"micro-batches of 1,000 rows{', async progress' if async_progress else ''}: "
                f"p50 {ours['p50 ms']:.0f} ms, p95 {ours['p95 ms']:.0f} ms; an empty source's "
                f"p50 {empty['p50 ms']:.0f} ms, p95 {empty['p95 ms']:.0f} ms"
            )
            print(f"  of which {ours['of which']}, empty {empty['of which']}", flush=True)


if __name__ == "__main__":
    main()
