"""A project under `headrace pipeline` and under `spark-pipelines`: the same rows (rule 26).

    python -m tests.outside.spark_pipelines

Spark's runner needs Spark Connect, which our extras do not have: its packages are installed at
first use, below `target`, next to this checkout's Spark. Exits with 1 where a table differs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow.dataset as ds
import pyspark

from headrace.client.admin.topics import create_topic
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from tests.support.processes.process import BrokerProcess

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(__file__).parent / "target" / "connect"
NEEDS = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
SECONDS_MAX = 400
TIME_MS = 1_795_860_000_000
DECLARATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

from headrace import pipeline as hp

COLUMNS = "id BIGINT NOT NULL, sku STRING, amount DECIMAL(12,2), at TIMESTAMP"


@dp.temporary_view
def placed():
    return hp.topic("orders", COLUMNS)


@dp.table(format="parquet", partition_cols=["sku"])
@hp.expect_or_drop("amount is small", "amount < 90")
def orders():
    return hp.read("placed").select("id", "sku", "amount", "_offset")


@dp.table(format="parquet")
def minutes():
    rows = hp.topic("orders", COLUMNS, event_time="at", watermark="1 minute")
    counted = rows.groupBy(F.window("at", "1 minute").alias("minute")).agg(F.count("id").alias("n"))
    return counted.select(F.col("minute.start").alias("start"), "n")
"""
SPECIFICATION = """
name: shop
storage: file://{storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.headrace.bootstrap.servers: {bootstrap}
  spark.sql.session.timeZone: UTC
  spark.sql.shuffle.partitions: "1"
"""


def main() -> int:
    """Print a verdict for each table; return the command's exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with BrokerProcess(directory / "broker") as broker:
            _produce(broker.bootstrap)
            ours = _under_headrace(directory / "ours", broker.bootstrap)
            sparks = _under_spark(directory / "sparks", broker.bootstrap)
    verdicts = {table: ours[table] == sparks[table] and len(ours[table]) > 1 for table in ours}
    for table, same in verdicts.items():
        missing = sorted(set(ours[table]).difference(sparks[table]))
        more = sorted(set(sparks[table]).difference(ours[table]))
        print(f"ok      {table}" if same else f"FAILED  {table}: missing {missing}, more {more}")
    return 0 if all(verdicts.values()) else 1


def _produce(bootstrap: str) -> None:
    client = connect(bootstrap)
    run(create_topic(client, "orders", partitions=2))
    producer = Producer(client)
    for number in range(100):
        at = f"2026-11-28T10:{number // 10:02}:{number % 60:02}Z"
        value = {"id": number, "sku": f"sku {number % 3}", "amount": f"{number}.50", "at": at}
        run(
            producer.send(
                "orders",
                json.dumps(value).encode(),
                b"%d" % number,
                timestamp=1_795_860_000_000 + number,
            )
        )
    run(producer.flush())
    client.close()


def _project(directory: Path) -> Path:
    (directory / "transformations").mkdir(parents=True)
    (directory / "transformations" / "orders.py").write_text(DECLARATIONS)
    return directory


def _under_headrace(directory: Path, bootstrap: str) -> Mapping[str, list[str]]:
    _project(directory)
    settings = 'name = "shop"\nconfiguration = { "spark.sql.session.timeZone" = "UTC" }\n'
    (directory / "pipeline.toml").write_text(settings)
    words = ["pipeline", "run", str(directory), "--once", "-b", bootstrap]
    _run([sys.executable, "-m", "headrace", *words], directory, os.environ)
    return _tables(directory / "data")


def _under_spark(directory: Path, bootstrap: str) -> Mapping[str, list[str]]:
    _project(directory)
    specification = SPECIFICATION.format(storage=directory / "storage", bootstrap=bootstrap)
    (directory / "spark-pipeline.yml").write_text(specification)
    from headrace.spark.sessions.java import find_java

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(_connect()), str(ROOT / "src")]),
    }
    _run([str(home / "bin" / "spark-pipelines"), "run"], directory, environment)
    return _tables(directory / "spark-warehouse")


def _connect() -> Path:
    """Return a directory with the packages of Spark Connect, installed at first use."""
    ready = TARGET / ".ready"
    if not ready.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*command, "--target", str(TARGET), "--upgrade", *NEEDS], check=True)
        ready.touch()
    return TARGET


def _run(command: list[str], directory: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _tables(storage: Path) -> Mapping[str, list[str]]:
    """Return the rows of each table as sorted texts."""
    return {
        name: sorted(
            str(sorted((column, _plain(value)) for column, value in row.items()))
            for row in ds.dataset(storage / name, format="parquet", partitioning="hive")
            .to_table()
            .to_pylist()
        )
        for name in ("orders", "minutes")
    }


def _plain(value: object) -> object:
    """Return a time as text without its zone: both are in UTC, with another type of Parquet."""
    return str(value.replace(tzinfo=None)) if isinstance(value, datetime) else value


if __name__ == "__main__":
    sys.exit(main())
