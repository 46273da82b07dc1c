"""The command `headrace pipeline` ended in any batch of windows: each is written once."""

import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.record.batch import Record
from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.spark.pipeline import live
from tests.spark.pipeline.run_projects import json_records, make_project

pytestmark = long_only
WINDOWS = """
@dp.table(format="delta")
def minutes():
    rows = hp.topic("{topic}", "id BIGINT NOT NULL, at TIMESTAMP", event_time="at",
                    watermark="2 minutes")
    counted = rows.groupBy(F.window("at", "1 minute").alias("minute")).agg(F.count("id").alias("n"))
    return counted.select(F.col("minute.start").alias("start"), "n")
"""
BEGAN = datetime(2026, 11, 28, 10, tzinfo=UTC)
SECONDS_A_RECORD = 5


def timed_records(first: int, count: int) -> list[Record]:
    """Records whose times are a few seconds apart."""
    found = []
    for number in range(first, first + count):
        at = BEGAN + timedelta(seconds=SECONDS_A_RECORD * number)
        found += json_records(number, 1, at=at.isoformat())
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_windows_of_runs_that_are_ended_in_any_batch_are_written_once(
    tmp_path: Path,
    bootstrap: str,
    spark: SparkSession,
    topics: Topics,
    live_topic: str,
    number: signal.Signals,
) -> None:
    """Rule 15 with state: a batch group-by over the same records has the same closed windows."""
    settings = f'trigger = "1 second"\n{live.LOCAL}'
    text = WINDOWS.format(topic=live_topic)
    shop = make_project(tmp_path / "shop", bootstrap, spark, text, settings).directory

    def send(partition: int, first: int) -> None:
        topics.append(live_topic, partition, timed_records(first, 10))

    count, _ = live.end_in_batches(live.words(shop, bootstrap), shop, send, number)
    counts = Counter(each * SECONDS_A_RECORD // 60 for each in range(count))
    closed = ((count - 1) * SECONDS_A_RECORD - 120) // 60
    expected = [(BEGAN + timedelta(minutes=at), counts[at]) for at in range(closed)]
    table = DeltaTable(str(shop / "data" / "minutes")).to_pyarrow_table().to_pylist()
    assert sorted((row["start"], row["n"]) for row in table) == expected
    assert closed > 3
