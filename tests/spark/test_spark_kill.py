"""A driver killed in mid-stream, and started again, has read every record once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.nouns import TopicPartition
from tests.spark.kit import Topics, values_of

DRIVER = Path(__file__).with_name("counting_driver.py")
RECORDS = 6_000


def start(
    topics: Topics, topic: str, directory: Path, **environment: str
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, str(DRIVER), topics.bootstrap, topic, str(directory)],
        env=os.environ | environment,
        start_new_session=True,  # killed with its JVM and workers, as by a power cut
    )


def batches_done(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.slow
def test_no_record_is_lost_or_read_twice_when_the_driver_is_killed(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, RECORDS // 2)
    topics.number(topic, 1, RECORDS // 2, RECORDS // 2)
    for least in (2, 5):
        driver = start(topics, topic, tmp_path)
        while batches_done(tmp_path) < least:
            assert driver.poll() is None, "ended before it could be killed"
            time.sleep(0.01)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    # The last start decodes in plain Python: it must go on where the kernel stopped.
    last = start(topics, topic, tmp_path, HEADRACE_NUMBA="0")
    assert last.wait(120) == 0
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert values_of(rows) == list(range(RECORDS))
    assert len({(row["partition"], row["offset"]) for row in rows}) == RECORDS
    half = RECORDS // 2
    ends = {TopicPartition(topic, 0): half, TopicPartition(topic, 1): half}
    assert topics.committed(f"counting-{topic}") == ends
