"""Checkpoints lost, of another query or topic, or of a topic that was made again, on real Spark.

Each is one error that says what to do, and nothing is lost or doubled when that is done.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.spark.sink_kit import numbers_of
from tests.spark.waiting import eventually
from tests.support.spark.tables import read

TOPIC = "topic"
every_sink = pytest.mark.parametrize(
    "kind",
    [TOPIC, "delta", *(pytest.param(kind, marks=long_only) for kind in ("parquet", "iceberg"))],
)
tables_first = pytest.mark.parametrize(
    "kind",
    ["delta", *(pytest.param(kind, marks=long_only) for kind in (TOPIC, "parquet", "iceberg"))],
)
every_sink_long = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=long_only) for kind in (TOPIC, "delta", "parquet", "iceberg")]
)


class Pipeline:
    """A topic's values into a topic or a table, by runs that end when all is written."""

    def __init__(self, spark: SparkSession, topics: Topics, directory: Path, kind: str) -> None:
        self.spark, self.topics, self.directory, self.kind = spark, topics, directory, kind
        self.source, self.target = topics.create(), topics.create(2)
        self.name = f"p-{self.target}"
        self.checkpoint = directory / "checkpoint"

    def run(self, name: str | None = None, **options: Any) -> None:
        """Write all there is under this pipeline's name; `options` are the source's."""
        given = {"subscribe": self.source, "startingOffsets": "earliest"} | options
        reader = self.spark.readStream.format("headrace").options(**given)
        rows = reader.option("kafka.bootstrap.servers", self.topics.bootstrap).load()
        writer = rows.select("value").writeStream.option("pipeline", name or self.name)
        if self.kind == TOPIC:
            writer = writer.format("headrace").option("topic", self.target)
            writer = writer.option("kafka.bootstrap.servers", self.topics.bootstrap)
        else:
            table = {"table": "sales.orders"} if self.kind == "iceberg" else {}
            writer = writer.format("headrace-table").option("path", str(self.directory / "table"))
            writer = writer.options(tableFormat=self.kind, shared=name is not None, **table)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def refused(self, why: str, **options: Any) -> str:
        """What a run says that is to end with this error."""
        with pytest.raises(StreamingQueryException, match=why) as caught:
            self.run(**options)
        return str(caught.value)

    @property
    def values(self) -> list[int]:
        if self.kind == TOPIC:
            return numbers_of(self.topics.bootstrap, self.target)
        column = read(self.directory / "table", self.kind).column("value")
        return sorted(int(value) for value in column.to_pylist())


@pytest.fixture
def pipeline(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[[str], Pipeline]:
    return lambda kind: Pipeline(spark, topics, tmp_path, kind)


@every_sink
def test_a_lost_checkpoint_is_one_error_that_says_where_to_go_on(
    pipeline: Callable[[str], Pipeline], kind: str
) -> None:
    pipe = pipeline(kind)
    pipe.topics.number(pipe.source, 0, 0, 100)
    pipe.run()
    shutil.rmtree(pipe.checkpoint)
    pipe.topics.number(pipe.source, 0, 100, 50)
    said = pipe.refused("another batch 0: it is lost|checkpoint knows nothing of it")
    assert pipe.values == list(range(100))
    found = re.search(r'startingOffsets=({"[^"]+":{"0":\d+}})', said)
    assert found is not None, said
    shutil.rmtree(pipe.checkpoint)
    pipe.run(f"{pipe.name}-again", startingOffsets=found[1])
    assert pipe.values == list(range(150))


@tables_first
def test_another_querys_checkpoint_on_the_same_topic_is_one_error(
    pipeline: Callable[[str], Pipeline], kind: str
) -> None:
    pipe = pipeline(kind)
    pipe.topics.number(pipe.source, 0, 0, 30)
    pipe.run()
    ours, pipe.checkpoint = pipe.checkpoint, pipe.directory / "other"
    other = Pipeline(pipe.spark, pipe.topics, pipe.directory / "elsewhere", TOPIC)
    other.source, other.checkpoint = pipe.source, pipe.checkpoint
    other.run(maxOffsetsPerTrigger=10)  # three batches: ahead of ours
    pipe.topics.number(pipe.source, 0, 30, 30)
    pipe.refused("plans another batch 3|batch 0 of another query")
    assert pipe.values == list(range(30))
    pipe.checkpoint = ours.rename(pipe.directory / "moved")  # whole, it is the same checkpoint
    pipe.run()
    assert pipe.values == list(range(60))


@every_sink_long
def test_another_topics_checkpoint_is_one_error_and_nothing_is_written(
    pipeline: Callable[[str], Pipeline], kind: str
) -> None:
    pipe = pipeline(kind)
    pipe.topics.number(pipe.source, 0, 0, 30)
    pipe.run()
    ours, pipe.source = pipe.source, pipe.topics.create()
    pipe.topics.number(pipe.source, 0, 900, 30)
    pipe.refused(f"the checkpoint is of {ours} and the query reads {pipe.source}: give the query a")
    pipe.source = ours
    pipe.run()
    assert pipe.values == list(range(30))


@every_sink_long
def test_a_topic_made_again_is_one_error_and_is_written_once_if_asked(
    pipeline: Callable[[str], Pipeline], kind: str
) -> None:
    pipe = pipeline(kind)
    pipe.topics.number(pipe.source, 0, 0, 30)
    pipe.run()
    pipe.topics.delete(pipe.source)
    assert eventually(lambda: pipe.topics.created(pipe.source))
    pipe.topics.number(pipe.source, 0, 100, 50)
    pipe.refused(f"{pipe.source} was deleted and made again")
    assert pipe.values == list(range(30))
    pipe.run(failOnDataLoss="false")
    assert pipe.values == [*range(30), *range(100, 150)]
    (pipe.checkpoint / "commits" / "1").unlink()  # killed before Spark's commit file
    (pipe.checkpoint / "commits" / ".1.crc").unlink()
    pipe.topics.number(pipe.source, 0, 150, 10)
    pipe.run()
    assert pipe.values == [*range(30), *range(100, 160)]
