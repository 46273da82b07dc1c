"""The three queries at work: on the topic while it is fed, and once more to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.spark
from examples.access_log import results, tables, topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from examples.access_log.results import Results


# Workers import the parser by its name; dates and hours in the tables are UTC's.
_SETTINGS: dict[str, Any] = {
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    "spark.sql.session.timeZone": "UTC",
}


def group_of(table: str) -> str:
    """The consumer group that the query of `table` shows as."""
    return f"{topic.NAME}-{table}"


class Pipeline:
    """A Spark session with the queries of `tables` on the topic at `bootstrap`.

    Each query shows as a consumer group of its own, `access-log-` and the name of its table.
    """

    def __init__(self, bootstrap: str, out: Path) -> None:
        self._bootstrap = bootstrap
        self._out = out
        self._spark = headrace.spark.session("access-log", **_SETTINGS)
        self._queries: dict[str, StreamingQuery] = {}
        self._taken: dict[int, int] = {}

    def start(self) -> None:
        """Start all queries live."""
        self._queries = {table: self._start(table, live=True) for table in tables.TABLES}

    def lines_taken(self) -> int:
        """How many lines have gone through the query of `requests`; raises what ended a query."""
        self._raise_failures()
        for progress in self._queries["requests"].recentProgress:
            self._taken[progress["batchId"]] = progress["numInputRows"]
        return sum(self._taken.values())

    def catch_up(self) -> None:
        """Wait until every query has taken what is in the topic now, then stop them."""
        for query in self._queries.values():
            query.processAllAvailable()
        self._stop()

    def finish(self) -> None:
        """Go on from the checkpoints to the end of the topic, and end there."""
        self._queries = {table: self._start(table, live=False) for table in tables.TABLES}
        for query in self._queries.values():
            query.awaitTermination()
        self._stop()

    def read_back(self, **counts: int) -> Results:
        """What is in the tables; `counts` as `results.read_back` takes them."""
        return results.read_back(self._spark, self._out, **counts)

    def close(self) -> None:
        """Stop the queries and the session."""
        self._stop()
        self._spark.stop()

    def _start(self, table: str, *, live: bool) -> StreamingQuery:
        return tables.start(table, self._records(group_of(table)), self._out, live=live)

    def _records(self, group: str) -> DataFrame:
        return (
            self._spark.readStream.format("headrace")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic.NAME)
            .option("startingOffsets", "earliest")
            .option("kafka.group.id", group)
            .load()
        )

    def _raise_failures(self) -> None:
        for query in self._queries.values():
            if (failure := query.exception()) is not None:
                raise failure

    def _stop(self) -> None:
        queries, self._queries = self._queries, {}
        for query in queries.values():
            query.stop()
