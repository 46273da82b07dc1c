"""The job that deploy/container/compose.yaml runs beside a broker."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet

from headrace.testing import BrokerThread
from tests.spark.long import QUICK_JAVA, long_only
from tests.support.processes.cli_kit import send

JOB = Path(__file__).parents[2] / "deploy" / "container" / "job" / "orders_to_parquet.py"
JOB_SECONDS_MAX = 120.0


@long_only
def test_the_composed_job_writes_each_record_once_through_a_restart(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with BrokerThread() as broker, said.open("wb") as out:
        broker.create_topics("orders")
        environ = {"HEADRACE_BOOTSTRAP": broker.bootstrap, "JOB_PLACE": str(tmp_path)}
        for written in (10, 20):
            send(broker.bootstrap, "orders", 10)
            job = subprocess.Popen(
                [sys.executable, str(JOB)], env=os.environ | environ | QUICK_JAVA, stderr=out
            )
            try:
                deadline = time.monotonic() + JOB_SECONDS_MAX
                while len(offsets(tmp_path)) < written:
                    assert job.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.5)
                job.send_signal(signal.SIGTERM)
                job.wait(JOB_SECONDS_MAX)
            finally:
                job.kill()
                job.wait()
            assert offsets(tmp_path) == list(range(written))
    assert "Traceback" not in said.read_text(), "a job that is ended says nothing of its workers"


def offsets(place: Path) -> list[int]:
    """The offsets in the files that the job's own log of commits names."""
    found: list[int] = []
    for commit in (place / "orders" / "_spark_metadata").glob("[0-9]*"):
        for line in commit.read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file://")
            found += parquet.read_table(path, columns=["offset"])["offset"].to_pylist()
    return sorted(found)
