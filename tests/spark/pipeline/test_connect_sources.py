"""`hp.topic` and `hp.read` under another runner of `pyspark.pipelines`: streams of its session.

The whole of Spark's own runner is in tests/outside/spark_pipelines; here its registry is played.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.sql import DataFrame, SparkSession

from headrace import pipeline as hp
from headrace.pipeline.connect_sources import BOOTSTRAP
from headrace.pipeline.graph import Graph
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import json_records

COLUMNS = "id BIGINT NOT NULL, name STRING"


@pytest.fixture
def runner(spark: SparkSession, bootstrap: str) -> Iterator[None]:
    """Another runner that loads a file, with the brokers' address in its settings."""
    other = cast("GraphElementRegistry", _Other())
    spark.conf.set(BOOTSTRAP, bootstrap)
    with graph_element_registration_context(other):
        yield
    spark.conf.unset(BOOTSTRAP)


class _Other:
    """Stands for the registry of another runner."""


def rows(stream: DataFrame, place: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows that a stream has now."""
    query = (
        stream.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = stream.sparkSession.table(name).collect()
    return [row.asDict() for row in found]


def test_a_topic_is_a_stream_from_the_earliest_record(
    runner: None, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.append(topic, 0, json_records(0, 3))
    found = rows(hp.topic(topic, COLUMNS), tmp_path, "earliest")
    assert [(row["id"], row["_offset"]) for row in found] == [(0, 0), (1, 1), (2, 2)]


def test_a_value_that_does_not_fit_ends_the_stream(
    runner: None, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.append(topic, 0, [Record(0, TIME_MS, None, b'{"id": "x"}')])
    with pytest.raises(Exception, match="id"):
        rows(hp.topic(topic, COLUMNS), tmp_path, "strict")


def test_a_view_is_read_by_its_name(
    runner: None, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.append(topic, 0, json_records(0, 2))
    hp.topic(topic, COLUMNS).createOrReplaceTempView("placed")
    assert [row["id"] for row in rows(hp.read("placed"), tmp_path, "view")] == [0, 1]


def test_the_setting_with_the_address_is_required(runner: None, spark: SparkSession) -> None:
    spark.conf.unset(BOOTSTRAP)
    with pytest.raises(hp.DeclarationError, match=BOOTSTRAP):
        hp.topic("orders", COLUMNS)


def test_a_parser_is_refused(runner: None) -> None:
    parser = hp.parser(lambda value: (value,), "a STRING")
    with pytest.raises(hp.DeclarationError, match="parsers run under headrace pipeline only"):
        hp.topic("orders", parser)


def test_rows_that_fail_a_check_that_drops_are_filtered(
    runner: None, topics: Topics, tmp_path: Path
) -> None:
    """As under our runner, a row passes only if the condition is true, not null."""
    topic = topics.create(1)
    unnamed = Record(0, TIME_MS + 4, b"k4", b'{"id": 4}')
    topics.append(topic, 0, [*json_records(0, 4), unnamed])

    @hp.expect_or_drop("even", "id % 2 = 0")
    @hp.expect_or_drop("named", "name <> ''")
    def named() -> DataFrame:
        return hp.topic(topic, COLUMNS)

    assert [row["id"] for row in rows(named(), tmp_path, "filtered")] == [0, 2]
    assert named.__name__ == "named", "the name of the table"


def test_checks_that_only_count_are_a_warning(runner: None) -> None:
    for decorator in (hp.expect("even", "id % 2 = 0"), hp.fresh("at", "1 hour")):
        with pytest.warns(UserWarning, match="is not evaluated under spark-pipelines") as found:
            decorator(lambda: None)
        assert found[0].filename == __file__


@pytest.mark.parametrize(
    "decorator",
    [
        hp.expect_or_fail("even", "id % 2 = 0"),
        hp.expect_or_fail("even", "id % 2 = 0", at_least=0.9),
        hp.expect_or_quarantine("even", "id % 2 = 0"),
        hp.unique("id"),
    ],
)
def test_checks_that_need_our_runner_are_refused(runner: None, decorator: Any) -> None:
    with pytest.raises(hp.DeclarationError, match="spark-pipelines cannot evaluate it"):
        decorator(lambda: None)


def test_our_own_registry_gives_no_rows_outside_of_a_run(spark: SparkSession) -> None:
    with (
        graph_element_registration_context(Graph()),
        pytest.raises(hp.DeclarationError, match="is called outside of a run"),
    ):
        hp.topic("orders", COLUMNS)
