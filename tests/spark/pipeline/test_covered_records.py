"""Quarantined records that an applied replay has put into its table (rule 17)."""

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.cli.main import run as command
from headrace.pipeline.project import load_project
from headrace.pipeline.replays.build import ReplayRequest, build_replay
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, make_project

TODAY = datetime.fromtimestamp(TIME_MS / 1000, UTC).date()
FIRST, SECOND = TODAY - timedelta(days=2), TODAY - timedelta(days=1)
ORDERS = """
@dp.table(format="delta", partition_cols=["day(at)"])
def orders():
    return hp.topic("{topic}", "id BIGINT{null}, amount DOUBLE, at TIMESTAMP")
"""


def order(day: date, amount: float, **more: object) -> Record:
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    value = {"amount": amount, "at": at.isoformat(), **more}
    return Record(0, int(at.timestamp() * 1000), b"k", json.dumps(value).encode())


class Shop:
    """A project with a replay, and its quarantine by the command."""

    def __init__(self, project: Project, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self.topic, self.capsys = project, topic, capsys

    def step(self, *words: str, bootstrap: str | None = None) -> int:
        where = ["-d", str(self.project.directory), "-b", bootstrap or self.project.bootstrap]
        return command(["pipeline", "replay", "orders", *words, *where])

    def states(self) -> dict[str, int]:
        """The records of the quarantine by their state."""
        self.capsys.readouterr()
        words = ["list", self.topic, "--all", "--json", "-b", self.project.bootstrap]
        assert command(["pipeline", "quarantine", *words]) == 0
        counts: Counter[str] = Counter()
        for group in json.loads(self.capsys.readouterr().out):
            counts[group["state"]] += group["records"]
        return dict(counts)

    def amounts(self) -> list[float]:
        table = DeltaTable(str(self.project.storage / "orders")).to_pyarrow_table()
        return sorted(table["amount"].to_pylist())


@pytest.fixture
def shop(
    tmp_path: Path,
    bootstrap: str,
    spark: SparkSession,
    topics: Topics,
    topic: str,
    capsys: pytest.CaptureFixture[str],
) -> Shop:
    """Two orders without an id, of two days, and one of no use are refused; r1 is of the first day
    with a column that may be null."""
    text = ORDERS.format(topic=topic, null=" NOT NULL")
    project = make_project(tmp_path / "shop", bootstrap, spark, text, name=f"shop-{topic}")
    wrong = order(FIRST, 9.5, id="x")
    records = [order(FIRST, 0.5, id=1), order(FIRST, 1.5), wrong, order(SECOND, 2.5)]
    topics.append(topic, 0, records)
    assert project.run().code == 0
    project.write(ORDERS.format(topic=topic, null=""))
    loaded = load_project(project.directory)
    build_replay(ReplayRequest(loaded, bootstrap, {}, "orders", FIRST, SECOND), spark=project.spark)
    return Shop(project, topic, capsys)


def test_records_that_an_applied_replay_has_are_settled_until_its_undo(shop: Shop) -> None:
    """Rule 17: `quarantine replay` of that day sends nothing that the table has."""
    assert shop.states() == {"waiting": 3}
    assert shop.amounts() == [0.5]
    assert shop.step("--apply", "r1") == 0
    assert "quarantine: 1 record in the table now" in shop.capsys.readouterr().err
    assert shop.amounts() == [0.5, 1.5]
    assert shop.states() == {"covered": 1, "waiting": 2}
    assert shop.step("--apply", "r1") == 0, "a repeat changes nothing"
    assert shop.states() == {"covered": 1, "waiting": 2}
    words = ["replay", shop.topic, "--json", "-b", shop.project.bootstrap]
    assert command(["pipeline", "quarantine", *words]) == 0
    (sent,) = json.loads(shop.capsys.readouterr().out)
    assert sent["records"] == 2
    assert shop.states() == {"covered": 1, "replayed": 2}
    for _ in range(2):
        assert shop.step("--undo", "r1") == 0
        assert shop.states() == {"waiting": 1, "replayed": 2}
    assert shop.amounts() == [0.5]


def test_a_broker_that_is_away_at_apply_is_an_error_that_says_what_to_do(shop: Shop) -> None:
    assert shop.step("--apply", "r1", bootstrap="127.0.0.1:1") == 3
    error = shop.capsys.readouterr().err
    assert "r1 is applied, and its records in the quarantine are not noted" in error
    assert "run the command again before" in error
    assert shop.amounts() == [0.5, 1.5]
    assert shop.states() == {"waiting": 3}
    assert shop.step("--apply", "r1") == 0
    assert shop.states() == {"covered": 1, "waiting": 2}
