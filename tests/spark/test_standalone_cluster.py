"""Source, sink and table where driver, executors and brokers are processes apart."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.kit import Topics
from tests.spark.sink_kit import numbers_of
from tests.spark.standalone import StandaloneCluster
from tests.support.spark.tables import read

pytest.importorskip("deltalake")
JOB_SECONDS_MAX = 700
RECORDS = 300


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not os.environ.get("HEADRACE_LONG"), reason="make spark-test runs it")
def test_a_cluster_of_two_workers_reads_and_writes_topics_and_tables(
    topics: Topics, tmp_path: Path
) -> None:
    topic, copy = topics.create(2), topics.create(2)
    for partition in (0, 1):
        topics.number(topic, partition, partition * RECORDS, RECORDS)
    with StandaloneCluster(tmp_path, workers=2) as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_job", cluster.master, topics.bootstrap,
             topic, copy, str(tmp_path)],
            capture_output=True, text=True, check=False, timeout=JOB_SECONDS_MAX,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:] + cluster.said()[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"executors": 2, "own": False, "rows": 2 * RECORDS}
    every = list(range(2 * RECORDS))
    assert numbers_of(topics.bootstrap, copy) == every
    written = read(tmp_path / "table", "delta")
    assert sorted(int(value.as_py()) for value in written["value"]) == every
