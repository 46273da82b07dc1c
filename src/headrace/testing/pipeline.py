"""A declared pipeline in a test, on given records and without a broker: the fixture `pipeline`."""

import atexit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.given.given_run import GivenError, GivenRun
from headrace.pipeline.given.records import FIRST_TIME, GivenRecord
from headrace.pipeline.load import loaded
from headrace.pipeline.project import FILE, load_project
from headrace.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.load import Loaded

_SETTINGS = {
    "spark.master": "local[1]",
    # A state store for each partition costs time; a test has few keys.
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.session.timeZone": "UTC",
    # Late rows are counted from the progress of all micro-batches.
    "spark.sql.streaming.numRecentProgressUpdates": 100_000,
}


@dataclass(frozen=True)
class PipelineUnderTest:
    """The pipeline of a project; each `given` starts a run of its own."""

    spark: "SparkSession"
    loaded: "Loaded"

    def given(self, topic: str, *batches: Sequence[object]) -> GivenRun:
        """Return a run whose topic has these records: a list for each micro-batch.

        A record is a value (bytes, text, None, or a dictionary that is written as JSON), or one
        made by `record`. `given` of the run adds another topic.
        """
        return GivenRun(self.spark, self.loaded).given(topic, *batches)

    @staticmethod
    def record(
        value: bytes | None, *, key: bytes | None = None, timestamp: datetime = FIRST_TIME
    ) -> GivenRecord:
        """Return a record with a key and a time, for `given`."""
        return GivenRecord(value, key, timestamp)


@contextmanager
def pipeline_of(test: Path) -> Iterator[PipelineUnderTest]:
    """Load the project that has a test's file. GivenError for a project with errors, or no project.

    The Spark session is shared by all tests of the process.
    """
    directory = next((each for each in test.parents if (each / FILE).is_file()), None)
    if directory is None:
        raise GivenError(f"no directory above {test} has a {FILE}")
    project = load_project(directory)
    with loaded(project) as found:
        if found.findings:
            raise GivenError("; ".join(map(str, found.findings)))
        yield PipelineUnderTest(_spark(project.configuration), found)


def _spark(configuration: "dict[str, str] | object") -> "SparkSession":
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    given = configuration if isinstance(configuration, dict) else {}
    spark = session("pipeline test", **{**_SETTINGS, **given})
    if running is None:
        atexit.register(spark.stop)
    return spark
