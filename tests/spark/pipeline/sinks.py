"""A flow `rows` that copies a topic to each kind of sink, and the ids that the sink has."""

import json

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.spark.pipeline.run_projects import Project

TABLE = """
@dp.table(format="{format}")
{checks}def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")
"""
TOPIC = """
dp.create_sink("copies", "headrace", {{"topic": "{topic}-copies"}})

@dp.append_flow(target="copies", name="rows")
{checks}def rows():
    return (
        hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")
        .withColumn("value", F.to_json(F.struct("id")))
    )
"""
SINKS = ("parquet", "delta", "iceberg", "topic")


def declare(project: Project, sink: str, topic: str, checks: str) -> None:
    text = TOPIC if sink == "topic" else TABLE
    project.write(text.format(format=sink, topic=topic, checks=checks))


def ids_of(project: Project, sink: str, topic: str) -> list[int]:
    """The ids that are visible in the sink, sorted."""
    place = project.storage / "rows"
    match sink:
        case "parquet":
            return sorted(row["id"] for row in project.parquet("rows"))
        case "delta":
            if not DeltaTable.is_deltatable(str(place)):
                return []
            return sorted(DeltaTable(str(place)).to_pyarrow_table()["id"].to_pylist())
        case "iceberg":
            catalog = load_catalog(
                "headrace",
                type="sql",
                uri=f"sqlite:///{place}/catalog.db",
                warehouse=f"file://{place}",
            )
            try:
                return sorted(
                    catalog.load_table(f"shop-{topic}.rows").scan().to_arrow()["id"].to_pylist()
                )
            finally:
                catalog.engine.dispose()  # type: ignore[attr-defined]
    rows = (
        project.spark.read.format("headrace")
        .option("kafka.bootstrap.servers", project.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", f"{topic}-copies")
        .load()
        .collect()
    )
    return sorted(json.loads(row.value)["id"] for row in rows)
