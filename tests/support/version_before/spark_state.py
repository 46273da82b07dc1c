"""State of Spark's queries: checkpoints, the decision topic, tables with our markers."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support.version_before.fill_kafka import admin_of, flushed, producer_of
from tests.support.version_before.observe_kafka import read
from tests.support.version_before.spark_run import DECISIONS, FORMATS, SOURCE, TABLE, TARGET
from tests.support.version_before.stored_broker import StoredBroker

PLACE = Path("/tmp/headrace-version-0.1")
"""Tables of Iceberg hold their absolute path: they are written and opened here."""
ROOT = Path(__file__).parents[3]
RUN_SECONDS_MAX = 600
QUERIES = ("sink", *FORMATS)
Python = str | Path


@contextmanager
def place() -> Iterator[Path]:
    """PLACE, empty, for one process at a time."""
    with Path(f"{PLACE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir()
        try:
            yield PLACE
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def create(broker: StoredBroker) -> None:
    """Create the source and the target."""
    admin = admin_of(broker)
    new = [NewTopic(SOURCE, 2, 1), NewTopic(TARGET, 3, 1)]
    for made in admin.create_topics(new).values():
        made.result(30)


def produce(broker: StoredBroker, first: int, count: int) -> None:
    """Produce numbers from `first` on to the source, in both partitions in turn."""
    producer = producer_of(broker)
    for number in range(first, first + count):
        producer.produce(SOURCE, str(number), f"k{number % 7}", number % 2)
    flushed(producer)


def run(broker: StoredBroker, at: Path, python: Python = sys.executable) -> None:
    """Run all queries with this Python until everything is written."""
    module = "tests.support.version_before.spark_run"
    line = [str(python), "-m", module, broker.bootstrap, str(at)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    assert done.returncode == 0, done.stderr[-4000:]


def forget_last_commits(at: Path) -> None:
    """Remove each checkpoint's last commit: as if the driver had been killed just before it."""
    for name in QUERIES:
        commits = at / f"check-{name}" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)


def table_values(at: Path, kind: str) -> list[int]:
    """The `value` column of a table as numbers, sorted, by the format's own library."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(at / kind)).to_pyarrow_table()
    elif kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{at / kind}/catalog.db"
        found = load_catalog("headrace", type="sql", uri=uri).load_table(TABLE).scan().to_arrow()
    else:
        import pyarrow.dataset as ds

        found = ds.dataset(at / kind, format="parquet", partitioning="hive").to_table()
    return sorted(int(value) for value in found.column("value").to_pylist())


def observe(broker: StoredBroker, at: Path) -> dict[str, Any]:
    """Read target and decisions as committed readers do, and the tables."""
    target = [TopicPartition(TARGET, partition) for partition in range(3)]
    written = read(broker, target, "read_committed")
    decided = read(broker, [TopicPartition(DECISIONS, 0)], "read_committed")[f"{DECISIONS}-0"]
    return {
        "target": sorted(int(row[4]) for rows in written.values() for row in rows),
        "decisions": [row[3:5] for row in decided],
        **{kind: table_values(at, kind) for kind in FORMATS},
    }


def holds_once(found: dict[str, Any], numbers: range) -> None:
    """Hold that target and tables have each number once."""
    for name in ("target", *FORMATS):
        assert found[name] == [*numbers], f"{name}: {len(found[name])} of {len(numbers)}"
