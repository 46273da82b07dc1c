"""Windows, outer joins and state of a flow, read from the objects of Spark's analysed plan."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.pipeline.plan.plan_step import PlanStep
from headrace.pipeline.replays.plan_windows import (
    has_outer_join,
    has_session_windows,
    longest_window_ms,
)

DECOY = "name <> '+ 99000000000), LongType, TimestampType Join LeftOuter'"
"""A text of the user that looks like a window in the text of a plan."""


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(
        sf.timestamp_seconds("id").alias("at"), sf.lit("n").alias("name"), "id"
    )


def plan(rows: DataFrame) -> PlanStep:
    return PlanStep.of(rows._jdf.queryExecution().analyzed())


def test_longest_window_is_that_of_the_expressions(rows: DataFrame) -> None:
    def counted(*window: str) -> DataFrame:
        return rows.groupBy(sf.window("at", *window), "name").agg(sf.count("*").alias("n"))

    hours = counted("90 minutes").select(sf.window_time("window").alias("time"), "n")
    lengths = {
        "tumbling": counted("30 minutes"),
        "sliding": counted("10 minutes", "1 minute"),
        "with a start": counted("1 hour", "1 hour", "15 minutes"),
        "not whole milliseconds": counted("1500 microseconds"),
        "two": hours.groupBy(sf.window("time", "1 day")).agg(sf.sum("n")),
        "none": rows.groupBy("name").count(),
        "a time that is computed": rows.withColumn("at", sf.expr("at + INTERVAL 2 HOURS")),
        "a text": rows.where(DECOY),
    }
    assert {name: longest_window_ms(plan(each)) for name, each in lengths.items()} == {
        "tumbling": 1_800_000,
        "sliding": 600_000,
        "with a start": 3_600_000,
        "not whole milliseconds": 2,
        "two": 86_400_000,
        "none": 0,
        "a time that is computed": 0,
        "a text": 0,
    }


def test_session_windows_are_told_from_time_windows(rows: DataFrame) -> None:
    sessions = rows.groupBy(sf.session_window("at", "5 minutes"), "name").count()
    assert has_session_windows(plan(sessions.select("count")))
    assert not has_session_windows(plan(rows.groupBy(sf.window("at", "5 minutes")).count()))


@pytest.mark.parametrize(
    ("how", "outer"),
    [("inner", False), ("left", True), ("right", True), ("full", True), ("leftsemi", True)],
)
def test_outer_joins_are_found_by_their_type(rows: DataFrame, how: str, outer: bool) -> None:
    joined = rows.alias("a").join(rows.alias("b"), sf.expr("a.id = b.id"), how)
    assert has_outer_join(plan(joined)) is outer
    assert not has_outer_join(plan(rows.where(DECOY)))


def test_steps_with_state_are_found_by_their_kind(rows: DataFrame) -> None:
    def kinds(found: DataFrame) -> set[str]:
        return {step.kind for step in plan(found).steps() if step.has_state_on_a_stream}

    assert kinds(rows.where("id > 1").select("id")) == set()
    assert kinds(rows.groupBy("id").count()) == {"Aggregate"}
    assert kinds(rows.dropDuplicates(["id"])) == {"Deduplicate"}
    assert not any(step.stateful for step in plan(rows.dropDuplicates(["id"])).steps()), (
        "a batch keeps no state"
    )
