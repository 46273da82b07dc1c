"""Verdicts on changes of a flow, each on a real plan, and whether Spark refuses the checkpoint."""

from __future__ import annotations

import re
import shutil
import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.errors import StreamingQueryException

from headrace.pipeline.declarations import sources
from headrace.pipeline.plan.compare import Verdict, compare
from headrace.pipeline.plan.prints import prints_of
from headrace.pipeline.plan.state_schema import run_without_rows
from headrace.pipeline.validate import EmptyStreams
from tests.spark.pipeline.projects import declared

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.plan.flow_print import FlowPrint

COLUMNS = "id BIGINT, sku STRING, region STRING, amount DOUBLE, at TIMESTAMP"
FLOW = f"""
def orders(topic="orders"):
    return hp.topic(topic, "{COLUMNS}", event_time="at", watermark="10 minutes")

dp.create_sink("counts", "headrace", {{"topic": "counts"}})

@dp.append_flow(target="counts")
def flow():
    rows = orders()
    groups = rows.groupBy(F.window("at", "5 minutes"), F.col("sku").alias("item"), "region")
    counted = groups.agg(F.count("id").alias("n"))
    return counted.select(F.to_json(F.struct("*")).alias("value"))
"""
TWO = FLOW.replace("rows = orders()", 'rows = orders().union(orders("returns"))')


class Change(NamedTuple):
    """A change of a flow's text, and what a plan says about it."""

    old: str
    new: str
    verdict: Verdict
    sentence: str
    """A pattern in the sentence."""
    base: str = FLOW


REFUSED, MEANING = Verdict.INCOMPATIBLE, Verdict.MEANING
CHANGES = {
    "aggregate added": Change(
        '.alias("n")', '.alias("n"), F.max("id").alias("m")', REFUSED, r"computes .*max\(id\) AS m"
    ),
    "key dropped": Change(
        ', "region")', ")", REFUSED, r"groups by \(window, sku, region\) → \(window, sku\)"
    ),
    "dropDuplicates added": Change(
        "rows = orders()", 'rows = orders().dropDuplicates(["id", "at"])', REFUSED,
        "stateful steps stateStoreSave → (stateStoreSave, dedupe|dedupe, stateStoreSave)",
    ),
    "stateless now": Change(
        "counted.select", "rows.select", REFUSED, "stateful steps stateStoreSave → none"
    ),
    "source added": Change(
        "rows = orders()", 'rows = orders().union(orders("returns"))', REFUSED,
        "source returns is added",
    ),
    "keys swapped": Change(
        'F.col("sku").alias("item"), "region"', '"region", F.col("sku").alias("item")', MEANING,
        r"groups by \(window, sku, region\) → \(window, region, sku\)",
    ),
    "key renamed": Change('alias("item")', 'alias("thing")', MEANING, "item.* → .*thing"),
    "count to sum": Change("F.count", "F.sum", MEANING, r"computes .*count\(id\) AS n.* → .*sum"),
    "watermark": Change(
        "10 minutes", "60 minutes", MEANING, "watermark of at 10 minutes → (60 minutes|1 hour)"
    ),
    "window": Change("5 minutes", "15 minutes", MEANING, "^window 5 minutes → 15 minutes$"),
    "other column under the same name": Change(
        'F.col("sku").alias("item")', 'F.upper("sku").alias("item")', MEANING, r"upper\(sku\)"
    ),
    "filter added": Change(
        "rows = orders()", 'rows = orders().where("amount > 1")', MEANING,
        r"filter \(amount > .* is added",
    ),
    "aggregate renamed": Change('alias("n")', 'alias("m")', MEANING, "AS n.* → .*AS m"),
    "two sources swapped": Change(
        'orders().union(orders("returns"))', 'orders("returns").union(orders())', MEANING,
        "sources are in another order, returns, orders", TWO,
    ),
}  # fmt: skip


def print_of(spark: SparkSession, place: Path, text: str) -> FlowPrint:
    with declared(place, text) as found:
        (only,) = prints_of(spark, found).values()
        return only


def run_rows(spark: SparkSession, place: Path, text: str) -> None:
    """Run a flow once on the checkpoint of `place`; each run has a new file of its topics."""
    streams = place / "streams"
    shutil.rmtree(streams, ignore_errors=True)
    streams.mkdir(parents=True)
    with declared(place, text) as found:
        given = EmptyStreams(spark, found, streams)
        with sources(given):
            rows = found.graph.flows[0].function()
        for file in streams.glob("*/*.parquet"):
            shutil.copy(file, file.with_name(f"{uuid.uuid4()}.parquet"))
        run_without_rows(rows, place / "checkpoint")


def spark_refuses(spark: SparkSession, place: Path, before: str, after: str) -> bool:
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    run_rows(spark, place, before)
    try:
        run_rows(spark, place, after)
    except StreamingQueryException as error:
        refusal = str(error)
    else:
        return False
    assert re.search("STATE|[Ss]tate|sources in the checkpoint", refusal)
    return True


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_has_its_verdict_and_spark_refuses_the_incompatible(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    text = change.base.replace(change.old, change.new)
    assert text != change.base
    before = print_of(spark, tmp_path / "before", change.base)
    found = compare(before, print_of(spark, tmp_path / "after", text))
    assert found.verdict is change.verdict, found.sentence
    assert re.search(change.sentence, found.sentence), found.sentence
    refused = spark_refuses(spark, tmp_path / "both", change.base, text)
    assert refused is (change.verdict is Verdict.INCOMPATIBLE)


def test_number_of_shuffle_partitions_is_not_in_a_print(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = []
    for partitions in ("1", "4"):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        found.append(print_of(spark, tmp_path / partitions, FLOW))
        assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    assert compare(*found).verdict is Verdict.SAME
    assert found[0].digest == found[1].digest
