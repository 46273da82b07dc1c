"""`headrace pipeline run`: flows to tables and topics, in the tests' own session."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.pipeline.run.event_log import events_of
from headrace.pipeline.run.supervisor import Mode
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records, make_project

TABLE = """
@dp.table(format="parquet")
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")
"""


@pytest.fixture
def project(tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics) -> Project:
    """A project that copies a topic of two partitions to a Parquet table."""
    topic = topics.create(2)
    made = make_project(tmp_path / "shop", bootstrap, spark, TABLE.format(topic=topic))
    (tmp_path / "shop" / "topic").write_text(topic)
    return made


def topic_of(project: Project) -> str:
    return (project.directory / "topic").read_text()


def test_once_writes_what_there_is_and_continues_at_the_next_start(
    project: Project, topics: Topics
) -> None:
    topic = topic_of(project)
    topics.append(topic, 0, json_records(0, 5))
    topics.append(topic, 1, json_records(5, 5))
    assert project.run() == (0, "all records are processed")
    assert [row["id"] for row in project.parquet("rows")] == list(range(10))
    assert project.run().code == 0, "nothing new"
    assert project.of("batch") == []
    topics.append(topic, 0, json_records(10, 1))
    assert project.run().code == 0
    assert sorted(row["id"] for row in project.parquet("rows")) == list(range(11))
    (batch,) = project.of("batch")
    assert (batch["flow"], batch["batch"], batch["records"], batch["lag"]) == ("rows", 1, 1, 0)
    assert batch["offsets"] == {
        f"{topic}-0": 6,
        f"{topic}-1": 5,
        f"shop.{topic}.retry-0": 0,
    }


def test_a_run_uses_sparks_layout_of_checkpoints(project: Project, topics: Topics) -> None:
    topics.append(topic_of(project), 0, json_records(0, 1))
    project.run()
    assert (project.storage / "_checkpoints" / "rows" / "rows" / "0" / "commits" / "0").is_file()
    runs = list((project.storage / "_pipeline" / "runs").glob("*.jsonl"))
    assert [event["event"] for event in events_of(runs[0])] == [
        event["event"] for event in project.events
    ]


def test_flows_write_delta_iceberg_and_topics_through_views(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics
) -> None:
    topic, target = topics.create(1), topics.create(1)
    text = f"""
@dp.temporary_view
def placed():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING", meta=False)

@dp.table(format="delta", partition_cols=["name"])
def in_delta():
    return hp.read("placed").where("id < 3")

@dp.table(format="iceberg")
def in_iceberg():
    return hp.read("placed").where("id >= 3")

dp.create_sink("copies", "headrace", {{"topic": "{target}"}})

@dp.append_flow(target="copies")
def copied():
    value = F.to_json(F.struct("*")).alias("value")
    return hp.read("placed").select(F.col("name").alias("key"), value)
"""
    project = make_project(tmp_path / "shop", bootstrap, spark, text, name=f"shop-{topic}")
    topics.append(topic, 0, json_records(0, 5))
    assert project.run().code == 0
    table = DeltaTable(str(project.storage / "in_delta")).to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == [0, 1, 2]
    assert table.column_names == ["id", "name"], "meta=False leaves the positions out"
    files = list((project.storage / "in_iceberg").rglob("*.parquet"))
    assert len(files) == 1
    rows = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    values = [
        (bytes(row.key).decode(), json.loads(row.value)["id"])
        for row in rows.option("subscribe", target).load().collect()
    ]
    assert values == [(f"n{number}", number) for number in range(5)]


def test_a_parser_and_heartbeats_give_rows_and_advance_the_watermark(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics
) -> None:
    topic = topics.create(1)
    text = f"""
class Line(NamedTuple):
    at: datetime
    status: int
    path: str | None

def parse(value):
    second, status, path = value.decode().split(",")
    return datetime.fromtimestamp(int(second)), int(status), path or None

def lines():
    return hp.topic("{topic}", hp.parser(parse, Line), event_time="at", watermark="1 minute",
                    heartbeats=True, meta="key")

@dp.table
def requests():
    return lines().where("status IS NOT NULL")

@dp.table
def minutes():
    counts = lines().groupBy(F.window("at", "1 minute")).agg(F.count("status").alias("n"))
    return counts.select("window.start", "n")
"""
    project = make_project(tmp_path / "shop", bootstrap, spark, text)
    second = TIME_MS // 60_000 * 60
    lines = [f"{second},200,/a", f"{second + 30},404,"]
    topics.append(topic, 0, [Record(0, TIME_MS, b"k", line.encode()) for line in lines])
    topics.append(topic, 0, [Record(0, second * 1000 + 300_000, None, None)])
    assert project.run().code == 0
    rows = project.parquet("requests")
    assert [(row["status"], row["path"], row["_offset"]) for row in rows] == [
        (200, "/a", 0),
        (404, None, 1),
    ]
    assert [bytes(row["_key"]) for row in rows] == [b"k", b"k"]
    closed = [row["n"] for row in project.parquet("minutes") if row["n"]]
    assert closed == [2], "the heartbeat five minutes later closes the window"


def test_until_idle_ends_after_records_that_arrive_during_the_run(
    project: Project, topics: Topics
) -> None:
    topic = topic_of(project)
    topics.append(topic, 0, json_records(0, 2))
    (project.directory / "pipeline.toml").write_text('name = "shop"\ntrigger = "1 second"\n')
    arrived: list[bool] = []

    class Later(list[Mapping[str, Any]]):
        """Appends records after the first batch."""

        def append(self, event: Mapping[str, Any]) -> None:
            super().append(event)
            if event["event"] == "batch" and not arrived:
                arrived.append(True)
                topics.append(topic, 1, json_records(2, 2))

    late = project._replace(events=Later())
    assert late.run(Mode.UNTIL_IDLE) == (0, "no new records")
    assert len(project.parquet("rows")) == 4
