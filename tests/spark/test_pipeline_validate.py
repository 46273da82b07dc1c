"""`headrace pipeline validate`: errors that Spark finds in a project, each with its place."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.pipeline.load import loaded
from headrace.pipeline.project import load_project
from headrace.pipeline.validate import findings_of

HEAD = """\
from datetime import datetime
from typing import NamedTuple
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from headrace import pipeline as hp
"""
SOUND = """
@dp.table(format="delta", partition_cols=["day(at)"])
@hp.expect_or_quarantine("amount is positive", "amount > 0")
def orders():
    return hp.topic("orders", "id BIGINT NOT NULL, amount DOUBLE, at TIMESTAMP")

@dp.table(format="delta")
@hp.expect_or_quarantine("amount is positive", "amount > 0")
def halves():
    twice = F.udf(lambda amount: amount / 2, "double")
    rows = hp.read("placed").alias("o").where("sku IS NOT NULL").repartition(2)
    return rows.select("o.*", twice("amount").alias("half")).withColumnRenamed("sku", "unit")

@dp.temporary_view
def placed():
    return hp.topic("orders", "id BIGINT, sku STRING, amount DECIMAL(12,2), at TIMESTAMP",
                    event_time="at", watermark="10 minutes")

@dp.table(schema="window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, sku STRING, n BIGINT")
def counts():
    groups = hp.read("placed").groupBy(F.window("at", "5 minutes"), "sku")
    return groups.agg(F.count("*").alias("n"))

dp.create_sink("alerts", "headrace", {"topic": "order-alerts"})

@dp.append_flow(target="alerts")
def large():
    return hp.read("placed").select(F.to_json(F.struct("*")).alias("value"))

class Line(NamedTuple):
    event_time: datetime
    client: str
    path: str
    status: int
    body_bytes: int | None
    request_time_ms: int

def lines():
    return hp.topic("access-log", hp.parser(lambda value: Line(*value), Line),
                    event_time="event_time", watermark="2 minutes", heartbeats=True)

@dp.table(format="parquet", partition_cols=["day(event_time)"])
@hp.expect("server errors are rare", "status < 500", at_least=0.95)
def requests():
    return lines().where("status IS NOT NULL")

@dp.table(format="parquet")
@hp.expect_or_fail("counts add up", "requests >= client_errors + server_errors")
def windows():
    status = F.col("status")
    minutes = lines().groupBy(F.window("event_time", "1 minute").alias("minute")).agg(
        F.count("status").alias("requests"), F.sum("body_bytes").alias("bytes"),
        F.count_if(status.between(400, 499)).alias("client_errors"),
        F.count_if(status >= 500).alias("server_errors"),
        F.percentile_approx("request_time_ms", [0.5, 0.99], 10_000).alias("ms"),
        F.approx_count_distinct("client", 0.01).alias("clients"),
        F.expr("approx_top_k(path, 5)").alias("top_paths"))
    return minutes.select(F.col("minute.start").alias("window_start"), "requests", "bytes",
        "client_errors", "server_errors", "clients", F.col("ms")[0].alias("p50_ms"), "top_paths")

@dp.temporary_view
def payments():
    return hp.topic("payments", "id BIGINT NOT NULL, paid_at TIMESTAMP NOT NULL",
                    event_time="paid_at", watermark="10 minutes")

@dp.table(format="iceberg", partition_cols=["day(at)"])
def paid_orders():
    o, p = hp.read("placed").alias("o"), hp.read("payments").alias("p")
    condition = F.expr("o.id = p.id AND paid_at BETWEEN at AND at + INTERVAL 30 MINUTES")
    return o.join(p, condition).select("o.*", "paid_at")
"""


def texts(spark: SparkSession, place: Path, text: str) -> list[str]:
    (place / "transformations").mkdir(parents=True)
    (place / "pipeline.toml").write_text('name = "shop"')
    (place / "transformations" / "all.py").write_text(HEAD + text)
    with loaded(load_project(place)) as found:
        findings, topics = findings_of(spark, found)
        assert topics <= {"orders", "payments", "access-log"}
        for finding in findings:
            assert finding.place is not None
            assert finding.place.file == str(place / "transformations" / "all.py")
            assert finding.place.line is not None
    return [finding.text for finding in findings]


def table(body: str, decorators: str = "@dp.table") -> str:
    return f"{decorators}\ndef t():\n    return {body}\n"


MOVING = '@dp.table\n@hp.expect_or_quarantine("c", "id > 1")'
TOPIC = 'hp.topic("orders", "id BIGINT, amount DOUBLE, at TIMESTAMP")'
ERRORS = {
    "topic orders: 'id BIGNT': .*BIGNT": table('hp.topic("orders", "id BIGNT")'),
    "two columns are named id": table('hp.topic("orders", "id BIGINT, ID STRING")'),
    "t: AnalysisException: .*amuont": table(f'{TOPIC}.where("amuont > 1")'),
    "t: ZeroDivisionError: division by zero": table("1 / 0"),
    "t: the function returns NoneType, not a DataFrame": table("None"),
    "t: check 'c': .*amuont": table(TOPIC, '@dp.table\n@hp.expect("c", "amuont > 1")'),
    "check 'c': 'amount \\+ 1' is double, not a boolean": table(
        TOPIC, '@dp.table\n@hp.expect("c", "amount + 1")'
    ),
    "t: check 'c': a quarantine needs the records' positions: keep the": table(
        f'{TOPIC}.select("id")', MOVING
    ),
    "t: check 'c': a quarantine needs .*: keep the columns _partition": table(
        'hp.topic("orders", "id BIGINT", meta=False)', MOVING
    ),
    "t: check 'c': .*: _offset is not the one of hp.topic": table(
        f'{TOPIC}.withColumn("_offset", F.col("_offset") + 1)', MOVING
    ),
    "t: check 'c': rows behind an aggregation are not single records": table(
        f'{TOPIC}.withWatermark("at", "1 hour").groupBy("at", "_offset", "_partition")'
        '.agg(F.max("id").alias("id"))',
        MOVING,
    ),
    "t: check 'c': rows behind a join are not single records": table(
        f'{TOPIC}.withWatermark("at", "1 hour").join(hp.topic("payments", "id BIGINT, '
        'at TIMESTAMP", meta=False).withWatermark("at", "1 hour"), ["id", "at"])',
        MOVING,
    ),
    "t: check 'c': rows behind a union .*: use expect_or_drop": table(
        f"{TOPIC}.union({TOPIC})", MOVING
    ),
    "t: check 'c': rows behind dropDuplicates": table(
        f'{TOPIC}.withWatermark("at", "1 hour").dropDuplicates(["id", "at"])', MOVING
    ),
    "t: check 'c': rows behind explode": table(
        f'{TOPIC}.withColumn("id", F.explode(F.array("id", "id")))', MOVING
    ),
    "t: check 'c': rows behind MapInPandas": table(
        f"{TOPIC}.mapInPandas(lambda batches: batches, {TOPIC}.schema)", MOVING
    ),
    "partition_cols: there is no column 'region'": table(
        TOPIC, '@dp.table(partition_cols=["region"])'
    ),
    "t: format is orc; tables are parquet": table(TOPIC, '@dp.table(format="orc")'),
    "cluster_by is not supported": table(TOPIC, '@dp.table(cluster_by=["id"])'),
    "the rows have the columns": table(TOPIC, '@dp.table(schema="id STRING")'),
    "t is a table, and tables are not read as streams": table(TOPIC)
    + 'dp.create_sink("s", "headrace", {"topic": "x"})\n'
    + '@dp.append_flow(target="s")\ndef f():\n    return hp.read("t")\n',
    r"hp.read\('none'\): there is no such view": table('hp.read("none")'),
    "views read each other: a → b → a": '@dp.temporary_view\ndef a():\n    return hp.read("b")\n'
    '@dp.temporary_view\ndef b():\n    return hp.read("a")\n',
    "t: .*watermark": table(f'{TOPIC}.groupBy("id").count()'),
    "f: its target nowhere is not declared": '@dp.append_flow(target="nowhere")\n'
    f"def f():\n    return {TOPIC}\n",
    "t: no flow writes to it": 'dp.create_streaming_table("t")\n',
    "s: name its topic": 'dp.create_sink("s", "headrace", {})\n'
    f'@dp.append_flow(target="s")\ndef f():\n    return {TOPIC}.selectExpr("1 AS value")\n',
    "value: there is no such column": 'dp.create_sink("s", "headrace", {"topic": "x"})\n'
    f'@dp.append_flow(target="s")\ndef f():\n    return {TOPIC}\n',
    "s: sinks have the format headrace": 'dp.create_sink("s", "kafka", {"topic": "x"})\n'
    f'@dp.append_flow(target="s")\ndef f():\n    return {TOPIC}.selectExpr("\'a\' AS value")\n',
    "checks belong to tables and sinks": table(
        TOPIC, '@dp.temporary_view\n@hp.expect("c", "true")'
    ),
    "large orders: a flow's name has up to 100": 'dp.create_sink("s", "headrace", {"topic": "x"})\n'
    f'@dp.append_flow(target="s", name="large orders")\ndef f():\n    return {TOPIC}\n',
    "größe: a table's name has up to 100": f"@dp.table\ndef größe():\n    return {TOPIC}\n",
    "the rows are not a stream": table("SparkSession.active().range(1)"),
}


def test_a_sound_project_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    assert texts(spark, tmp_path, SOUND) == []


def test_each_error_of_a_project_is_found_with_its_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = {
        message: texts(spark, tmp_path / str(number), text)
        for number, (message, text) in enumerate(ERRORS.items())
    }
    missed = {
        message: each
        for message, each in found.items()
        if not any(re.search(message, finding) for finding in each)
    }
    assert missed == {}
