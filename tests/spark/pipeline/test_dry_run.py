"""`headrace pipeline run --dry`: the newest records through the flows, and nothing is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.client.admin.groups import list_groups
from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.commands.dry_lines import print_dry
from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.dry.dry_run import DryResult, dry_run
from headrace.pipeline.project import load_project
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records, make_project
from tests.support.processes.cli_kit import SCHEMAS, check

FLOWS = """
def lines():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING, at TIMESTAMP", hidden=["name"],
                    event_time="at", watermark="1 minute")

@dp.table(format="delta")
@hp.expect_or_drop("id is small", "id < 8")
@hp.expect("is even", "id % 2 = 0")
def orders():
    return lines().select("id", F.upper("name").alias("shout"), "_partition", "_offset")

@dp.table
def minutes():
    counts = lines().groupBy(F.window("at", "1 minute").alias("minute"))
    return counts.agg(F.count("*").alias("n"), F.max("name").alias("last")).select(
        F.col("minute.start").alias("start"), "n", "last")

dp.create_sink("copies", "headrace", {{"topic": "{topic}-copies"}})

@dp.append_flow(target="copies")
def copied():
    plain = lines().select(F.to_json(F.struct("id")).alias("key"),
                           F.to_json(F.struct("*")).alias("value"))
    return plain
"""


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(2)


@pytest.fixture
def project(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topic: str, topics: Topics
) -> Project:
    topics.create(1, f"{topic}-copies")
    text = FLOWS.format(topic=topic)
    return make_project(tmp_path / "shop", bootstrap, spark, text, name=f"shop-{topic}")


def dry(project: Project, last: int = 100) -> DryResult:
    def client() -> Any:
        return connect(project.bootstrap)

    loaded = load_project(project.directory)
    return dry_run(loaded, client, last, lambda _: None, project.spark)


def snapshot(project: Project) -> dict[str, Any]:
    """All that a run could have written: files, topics with their ends, groups."""
    files = {
        str(path.relative_to(project.directory)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in project.directory.rglob("*")
    }
    with connect(project.bootstrap) as client:
        known = run(client.metadata()).topics
        places = [
            TopicPartition(name, number)
            for name, found in known.items()
            for number in range(len(found.partitions))
        ]
        ends = run(list_offsets(client, dict.fromkeys(places, LATEST)))
        groups = sorted(group.group for group in run(list_groups(client)))
    return {"files": files, "ends": {at: end.offset for at, end in ends.items()}, "groups": groups}


def append(topics: Topics, topic: str) -> None:
    """Eleven good records in both partitions, one that is no number, one of an hour later."""
    at = "2026-11-28T10:31:00Z"
    topics.append(topic, 0, json_records(0, 6, at=at))
    topics.append(topic, 1, json_records(6, 5, at=at, city="x"))
    wrong = b'{"id": "secret-id", "name": "secret-name"}'
    topics.append(topic, 1, [Record(0, TIME_MS, b"k", wrong)])
    topics.append(topic, 0, json_records(12, 1, at="2026-11-28T11:31:00Z"))


def test_a_dry_run_changes_nothing_before_and_after_runs(
    project: Project, topics: Topics, topic: str
) -> None:
    """Rule 23: a snapshot of files, topics, their ends and groups before and after."""
    append(topics, topic)
    before = snapshot(project)
    result = dry(project)
    assert result.failure is None, result.failure
    assert snapshot(project) == before
    assert not project.storage.exists()
    assert project.run().code == 0
    before = snapshot(project)
    assert dry(project).to_json() == result.to_json(), "it does not depend on the checkpoints"
    assert snapshot(project) == before


def test_a_dry_run_shows_rows_counts_refusals_and_checks(
    project: Project, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    append(topics, topic)
    result = dry(project)
    found = result.to_json()
    check(json.loads((SCHEMAS / "pipeline-run.json").read_text()), found)
    assert found["topics"] == [{"topic": topic, "records": 13}]
    orders, minutes, copied = found["flows"]
    for flow in found["flows"]:
        assert flow["unknown_keys"] == {"city": 5}, "the record that is refused has none"
    assert (orders["rows"], orders["failed_checks"]) == (8, {"id is small": 4, "is even": 5})
    assert orders["shown"][0] == {"id": 0, "shout": "***", "_partition": 0, "_offset": 0}
    assert len(orders["shown"]) == 5
    assert (minutes["rows"], minutes["hidden"]) == (1, ["last"])
    assert (minutes["shown"][0]["n"], minutes["shown"][0]["last"]) == (11, "***")
    assert copied["hidden"] == ["value"], "a struct of all columns has the hidden one"
    assert copied["shown"][0] == {"key": '{"id":0}', "value": "***"}
    assert found["refused"] == [
        {
            "topic": topic,
            "reason": "id: expected an integer, got a string",
            "records": 1,
            "example": f"{topic}-1@5",
        }
    ]
    print_dry(result)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        f"shop-{topic}: dry run: nothing is written",
        f"  reads 13 records of {topic}",
        "orders → orders: 8 rows",
        "  check 'id is small': 4 failed",
        "  check 'is even': 5 failed",
        "  keys without a column: city (5)",
    ]
    reason = "id: expected an integer, got a string"
    assert lines[-1] == f"! {topic}: 1 record refused: {reason}, first {topic}-1@5"
    for secret in ("secret", "N1", "n1"):
        assert secret not in json.dumps(found)
        assert secret not in "\n".join(lines)


def test_only_the_last_records_of_each_partition_are_read(
    project: Project, topics: Topics, topic: str
) -> None:
    append(topics, topic)
    result = dry(project, 4)
    assert result.topics == {topic: 4}
    orders = result.to_json()["flows"][0]
    assert [row["_offset"] for row in orders["shown"]] == [5], "the others are dropped"
    assert [each.example for each in result.refused] == [f"{topic}-1@5"]


def test_a_failed_check_and_an_exception_are_results_of_their_flow(
    project: Project, topics: Topics, topic: str
) -> None:
    topics.append(topic, 0, json_records(0, 3))
    project.write(f"""
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")

@dp.table
@hp.expect_or_fail("id is 9", "id = 9")
def checked():
    return rows()

@dp.table
def broken():
    return rows().select(F.udf(lambda number: 1 // number, "int")("id").alias("x"))

@dp.table
def well():
    return rows()
""")
    result = dry(project)
    checked, broken, well = result.flows
    assert checked.failure is not None
    assert checked.failure.code == 11
    assert checked.failure.text.startswith("checked: check 'id is 9' failed: 3 of 3 rows")
    assert broken.failure is not None
    assert broken.failure.code == 1
    assert "ZeroDivisionError" in broken.failure.text
    assert (well.failure, len(well.shown)) == (None, 3)
    assert result.failure == checked.failure
    check(json.loads((SCHEMAS / "pipeline-run.json").read_text()), result.to_json())


def test_errors_of_the_declarations_are_all_named(project: Project, topic: str) -> None:
    project.write(f"""
@dp.table
def one():
    return hp.topic("{topic}", "id BIGINT", hidden=["nmae"])

@dp.table
def two():
    return hp.topic("{topic}", "id BIGNT")
""")
    with pytest.raises(DeclarationError) as raised:
        dry(project)
    text = str(raised.value)
    assert f"topic {topic}: hidden: there is no column nmae: id" in text
    assert "BIGNT" in text
