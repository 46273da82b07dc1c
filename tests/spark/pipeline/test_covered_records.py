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
from headrace.spark.tables.delta_parts.swap import Swap, swap_files
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

    def declare(self, null: str) -> None:
        """Write the flow; `null`: of its column id."""
        self.project.write(ORDERS.format(topic=self.topic, null=null))

    def build(self, null: str) -> None:
        """Compute the first day again."""
        self.declare(null)
        loaded, bootstrap = load_project(self.project.directory), self.project.bootstrap
        request = ReplayRequest(loaded, bootstrap, {}, "orders", FIRST, SECOND)
        build_replay(request, spark=self.project.spark)

    def send(self) -> int:
        """Send the waiting records to the flow again; return how many."""
        self.capsys.readouterr()
        words = ["replay", self.topic, "--json", "-b", self.project.bootstrap]
        assert command(["pipeline", "quarantine", *words]) == 0
        (sent,) = json.loads(self.capsys.readouterr().out)
        found: int = sent["records"]
        return found

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
    made = Shop(project, topic, capsys)
    made.build(null="")
    return made


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
    assert shop.send() == 2
    assert shop.states() == {"covered": 1, "replayed": 2}
    for _ in range(2):
        assert shop.step("--undo", "r1") == 0
        assert shop.states() == {"waiting": 1, "replayed": 2}
    assert shop.amounts() == [0.5]


def test_a_broker_that_is_away_at_apply_is_an_error_before_anything_is_changed(
    shop: Shop,
) -> None:
    assert shop.step("--apply", "r1", bootstrap="127.0.0.1:1") == 3
    error = shop.capsys.readouterr().err
    assert "--apply r1 is not completed, because its records in the quarantine are not" in error
    assert "run the command again, or start the pipeline" in error
    assert shop.amounts() == [0.5]
    assert shop.states() == {"waiting": 3}
    assert shop.step("--apply", "r1") == 0
    assert shop.amounts() == [0.5, 1.5]
    assert shop.states() == {"covered": 1, "waiting": 2}


class Killed(BaseException):
    """The process was killed."""


def killed_at_commit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, word: str, *, after: bool
) -> None:
    """Do a step of the replay whose process is killed before or after its commit."""

    def killed(location: Path, files: Swap) -> int:
        if after:
            swap_files(location, files)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("headrace.pipeline.replays.steps.swap_files", killed)
        with pytest.raises(Killed):
            shop.step(word, "r1")


@pytest.mark.parametrize("after", [False, True])
def test_a_step_that_is_killed_and_completed_by_a_run_notes_its_records(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Rule 17: what `quarantine replay` sends afterwards is in the table once."""
    killed_at_commit(shop, monkeypatch, "--apply", after=after)
    assert shop.project.run().code == 0
    (event,) = shop.project.of("replay")
    assert (event["replay"], event["state"]) == ("r1", "applied")
    assert shop.states() == {"covered": 1, "waiting": 2}
    killed_at_commit(shop, monkeypatch, "--undo", after=after)
    assert shop.project.run().code == 0
    assert shop.states() == {"waiting": 3}
    assert shop.amounts() == [0.5]
    assert shop.send() == 3
    for _ in range(2):
        assert shop.project.run().code == 0
        assert shop.amounts() == [0.5, 1.5, 2.5]


def test_a_run_without_brokers_leaves_an_interrupted_apply_to_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_commit(shop, monkeypatch, "--apply", after=False)
    assert shop.project.run(bootstrap="127.0.0.1:1").code == 3
    (event,) = shop.project.of("replay")
    assert (event["replay"], event["state"]) == ("r1", "applying")
    assert shop.amounts() == [0.5]
    assert shop.project.run().code == 0
    assert shop.amounts() == [0.5, 1.5]
    assert shop.states() == {"covered": 1, "waiting": 2}


@pytest.mark.parametrize("is_read", [False, True])
def test_records_that_were_sent_since_the_replay_was_computed_refuse_its_apply(
    shop: Shop, is_read: bool
) -> None:
    """A record that the live flow writes, too, would be in the table twice."""
    assert shop.send() == 3
    if is_read:
        assert shop.project.run().code == 0
        assert shop.amounts() == [0.5, 1.5, 2.5]
    before, states = shop.amounts(), shop.states()
    assert shop.step("--apply", "r1") == 10
    error = shop.capsys.readouterr().err
    assert f"1 record of the quarantine ({shop.topic}-0@1) would be in orders twice" in error
    assert ("has written what" if is_read else "let the pipeline run, then discard r1") in error
    assert (shop.amounts(), shop.states()) == (before, states)
    assert shop.project.run().code == 0
    assert shop.amounts() == [0.5, 1.5, 2.5]
    assert shop.step("--discard", "r1") == 0
    shop.build(null="")
    assert shop.step("--apply", "r2") == 0
    assert shop.amounts() == [0.5, 1.5, 2.5]
    assert shop.states() == {"replayed": 3, "waiting": 1}
    assert shop.step("--undo", "r2") == 0
    assert shop.amounts() == [0.5, 1.5, 2.5]
    assert shop.states() == {"replayed": 3, "waiting": 1}


def test_a_record_whose_row_a_replay_removes_waits_again(shop: Shop) -> None:
    """It was sent and written, and the replay's stricter columns refuse it."""
    assert shop.step("--discard", "r1") == 0
    assert shop.send() == 3
    assert shop.project.run().code == 0
    shop.build(null=" NOT NULL")
    assert shop.step("--apply", "r2") == 0
    assert "quarantine: 1 record waiting again" in shop.capsys.readouterr().err
    assert shop.amounts() == [0.5, 2.5]
    assert shop.states() == {"replayed": 2, "waiting": 2}
    assert shop.step("--undo", "r2") == 0
    assert shop.amounts() == [0.5, 1.5, 2.5]
    assert shop.states() == {"replayed": 2, "covered": 1, "waiting": 1}


def test_an_undo_of_rows_that_were_sent_again_is_refused(shop: Shop) -> None:
    assert shop.step("--discard", "r1") == 0
    assert shop.send() == 3
    assert shop.project.run().code == 0
    shop.build(null=" NOT NULL")
    assert shop.step("--apply", "r2") == 0
    shop.declare(null="")
    assert shop.send() == 2
    for written in (False, True):
        if written:
            assert shop.project.run().code == 0
            assert shop.amounts() == [0.5, 1.5, 2.5]
        assert shop.step("--undo", "r2") == 1
        error = shop.capsys.readouterr().err
        assert "r2 cannot be undone: 1 record of the quarantine" in error
        assert "again instead" in error
    assert shop.amounts() == [0.5, 1.5, 2.5]


def test_an_undo_leaves_records_covered_that_an_older_replay_has_put_there(shop: Shop) -> None:
    """r2 is computed over the rows of r1, so its undo brings them back."""
    assert shop.step("--apply", "r1") == 0
    shop.build(null="")
    assert shop.step("--apply", "r2") == 0
    assert shop.states() == {"covered": 1, "waiting": 2}
    assert shop.step("--undo", "r1") == 1
    assert "undo r2 first" in shop.capsys.readouterr().err
    assert shop.step("--undo", "r2") == 0
    assert shop.amounts() == [0.5, 1.5]
    assert shop.states() == {"covered": 1, "waiting": 2}
    assert shop.step("--undo", "r1") == 0
    assert shop.amounts() == [0.5]
    assert shop.states() == {"waiting": 3}
