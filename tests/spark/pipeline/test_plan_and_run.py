"""`headrace pipeline plan` and the runs that it allows or refuses, on real checkpoints."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.plan import planned
from headrace.pipeline.plan.compare import Verdict
from headrace.pipeline.plan.decisions import accept, new_version
from headrace.pipeline.plan.planned import ProjectPlan, plan_of
from headrace.pipeline.project import load_project
from headrace.pipeline.run.storage import Storage
from headrace.record.batch import Record
from tests.spark.pipeline.run_projects import Project, make_project

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.kit import Topics

TEXT = """
def events():
    return hp.topic("{topic}", "sku STRING, at TIMESTAMP", event_time="at", watermark="1 minute")

@dp.table(format="parquet")
def counts():
    groups = events().groupBy(F.window("at", "5 minutes"), "sku")
    return groups.agg(F.count("sku").alias("n")).select("window.start", "sku", "n")

@dp.table(format="parquet")
def rows():
    return events().where("sku IS NOT NULL").select("sku", "_offset")
"""
START = datetime(2026, 11, 28, 10, 0, tzinfo=UTC)


def event(minute: int, sku: str = "a") -> Record:
    at = START.replace(minute=minute)
    value = {"sku": sku, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return Record(0, int(at.timestamp() * 1000), b"k", json.dumps(value).encode())


class Shop:
    """A project, its topic, and its plans in the tests' session."""

    def __init__(self, place: Path, bootstrap: str, spark: SparkSession, topics: Topics) -> None:
        self.spark, self.topics = spark, topics
        self.topic = topics.create(1)
        self.text = TEXT.format(topic=self.topic)
        self.project: Project = make_project(place, bootstrap, spark, self.text)
        self.storage = Storage(self.project.storage)

    def append(self, *minutes: int) -> None:
        self.topics.append(self.topic, 0, [event(minute) for minute in minutes])

    def change(self, old: str, new: str) -> None:
        assert old in self.text
        self.project.write(self.text.replace(old, new))

    def plan(self) -> ProjectPlan:
        return plan_of(load_project(self.project.directory), self.storage, self.spark)

    def verdicts(self) -> dict[str, Verdict]:
        return {flow.name: flow.comparison.verdict for flow in self.plan().flows}

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Return time and content of all files of the storage."""
        files = [each for each in self.storage.root.rglob("*") if each.is_file()]
        return {str(each): (each.stat().st_mtime_ns, each.read_bytes()) for each in files}

    def end(self) -> int:
        """Return the topic's end offset."""
        partition = TopicPartition(self.topic, 0)
        return run(list_offsets(self.topics.client, {partition: LATEST}))[partition].offset

    def counts(self, version: str = "counts") -> list[tuple[int, int]]:
        """Return the windows' minutes and counts."""
        return sorted((row["start"].minute, row["n"]) for row in self.project.parquet(version))


@pytest.fixture
def shop(tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics) -> Shop:
    return Shop(tmp_path / "shop", bootstrap, spark, topics)


def test_changed_window_is_refused_until_it_is_accepted(shop: Shop) -> None:
    """Rules 13 and 23: the plan and the refused run change nothing, and no query starts."""
    assert shop.verdicts() == {"counts": Verdict.NEW, "rows": Verdict.NEW}
    assert not shop.storage.root.exists(), "a plan writes nothing"
    shop.append(0, 1, 9)
    assert shop.project.run().code == 0
    assert shop.verdicts() == {"counts": Verdict.SAME, "rows": Verdict.SAME}
    assert shop.counts() == [(0, 2)]

    shop.change("5 minutes", "10 minutes")
    shop.append(12, 25)
    before, end = shop.files(), shop.end()
    (changed, same) = shop.plan().flows
    assert changed.comparison.verdict is Verdict.MEANING
    assert changed.comparison.sentence == "window 5 minutes → 10 minutes"
    assert str(changed.place).endswith("all.py:10")
    assert same.comparison.verdict is Verdict.SAME
    assert shop.files() == before
    ending = shop.project.run()
    assert ending.code == 10
    assert "counts: window 5 minutes → 10 minutes" in ending.text
    assert shop.project.of("flow") == []
    assert {path: found for path, found in shop.files().items() if "/_pipeline/" not in path} == {
        path: found for path, found in before.items() if "/_pipeline/" not in path
    }
    assert shop.end() == end
    assert shop.files()[str(shop.storage.applied)] == before[str(shop.storage.applied)]

    accept(load_project(shop.project.directory), shop.storage, "counts", shop.spark)
    assert shop.project.run().code == 0
    assert shop.verdicts() == {"counts": Verdict.SAME, "rows": Verdict.SAME}
    assert (shop.storage.checkpoint("counts", "counts") / "commits" / "1").is_file()


def test_new_version_computes_a_table_again_next_to_the_old(shop: Shop) -> None:
    shop.append(0, 1, 9)
    assert shop.project.run().code == 0
    shop.change(
        '.alias("n")).select("window.start", "sku", "n")',
        '.alias("n"), F.max("at").alias("m")).select("window.start", "sku", "n", "m")',
    )
    assert shop.verdicts()["counts"] is Verdict.INCOMPATIBLE
    assert shop.project.run().code == 10
    new_version(load_project(shop.project.directory), shop.storage, "counts", shop.spark)
    shop.append(30)
    assert shop.project.run().code == 0
    assert shop.counts("counts@1") == [(0, 2), (5, 1)]
    assert shop.counts("counts") == [(0, 2)], "the old version stays"
    assert [row["_offset"] for row in shop.project.parquet("rows")] == [0, 1, 2, 3]
    assert shop.verdicts() == {"counts": Verdict.SAME, "rows": Verdict.SAME}


def test_compatible_change_runs_and_is_the_same_afterwards(shop: Shop) -> None:
    shop.append(0)
    assert shop.project.run().code == 0
    shop.change('.select("sku", "_offset")', '.select("sku", "_offset", F.lit(1).alias("one"))')
    found = shop.plan().flows[1].comparison
    assert found.verdict is Verdict.COMPATIBLE
    assert found.sentence == "column one int: added to the table, its earlier rows are null in it"
    shop.append(1)
    assert shop.project.run().code == 0
    assert [row.get("one") for row in shop.project.parquet("rows")] == [None, 1]
    assert shop.verdicts()["rows"] is Verdict.SAME


def test_unchanged_code_is_planned_without_spark(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.append(0)
    assert shop.project.run().code == 0

    def fail(*_: object) -> None:
        raise AssertionError("a print was made")

    with monkeypatch.context() as patched:
        patched.setattr(planned, "prints_of", fail)
        patched.setattr(planned, "checking_session", fail)
        project = load_project(shop.project.directory)
        flows = plan_of(project, shop.storage).flows
        assert [flow.comparison.verdict for flow in flows] == [Verdict.SAME] * 2
        assert shop.project.run().code == 0
    shop.project.write("# a comment" + shop.text)
    with monkeypatch.context() as patched:
        patched.setattr(planned, "prints_of", fail)
        with pytest.raises(AssertionError, match="a print was made"):
            shop.plan()
    assert shop.verdicts() == {"counts": Verdict.SAME, "rows": Verdict.SAME}


def test_project_with_errors_is_planned_as_errors(shop: Shop) -> None:
    shop.change('"sku IS NOT NULL"', '"skuu IS NOT NULL"')
    plan = shop.plan()
    assert plan.flows == ()
    assert "skuu" in plan.findings[0].text
    assert shop.project.run().code == 2
    assert not shop.storage.applied.exists()
