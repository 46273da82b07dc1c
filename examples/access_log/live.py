"""The three queries at work: on the topic while it is fed, and once more to its end."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.spark
from examples.access_log import results, tables, topic
from examples.access_log.leftovers import remove_unlisted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from examples.access_log.results import Results


# Workers import the parser by its name; dates and hours in the tables are UTC's.
_SETTINGS: dict[str, Any] = {
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    "spark.sql.session.timeZone": "UTC",
}

STARTS_MAX = 3
"""Spark gives the Python of a source ten seconds to start, which cannot be set: too little on a
machine that is busy with something else. Nothing was read yet, so the query is started again."""
_TOO_SLOW = "Python worker failed to connect back"


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
        with _stderr_to(out / "spark.log"):
            self._spark = headrace.spark.session("access-log", **_SETTINGS)
        self._queries: dict[str, StreamingQuery] = {}
        self._taken: dict[str, dict[int, int]] = {}

    def start(self) -> None:
        """Start all queries live."""
        self._queries = {table: self._start(table, live=True) for table in tables.TABLES}

    def lines_taken(self) -> int:
        """How many lines have gone through every query; raises what ended one."""
        self._raise_failures()
        for table, query in self._queries.items():
            taken = self._taken.setdefault(table, {})
            for progress in query.recentProgress:
                taken[progress["batchId"]] = progress["numInputRows"]
        return min(sum(taken.values()) for taken in self._taken.values())

    def start_to_end(self) -> None:
        """Start all queries from their checkpoints, to take what is in the topic now and end."""
        self._queries = {table: self._start(table, live=False) for table in tables.TABLES}

    def ended(self) -> bool:
        """Whether all queries have; raises what ended one too early."""
        self._raise_failures()
        return not any(query.isActive for query in self._queries.values())

    def stop(self) -> None:
        """Stop the queries where they are; their checkpoints say where that is."""
        queries, self._queries = self._queries, {}
        for query in queries.values():
            query.stop()

    def remove_leftovers(self) -> None:
        """Take out of the tables' folders what a stopped batch left; no query may be running."""
        for table in tables.TABLES:
            remove_unlisted(self._out / table)

    def read_back(self, **counts: int) -> Results:
        """What is in the tables; `counts` as `results.read_back` takes them."""
        return results.read_back(self._spark, self._out, **counts)

    def close(self) -> None:
        """Stop the queries and the session."""
        self.stop()
        self._spark.stop()

    def _start(self, table: str, *, live: bool) -> StreamingQuery:
        """Start a query and see its source answer: they start one after the other."""
        for _ in range(STARTS_MAX):
            query = tables.start(table, self._records(group_of(table)), self._out, live=live)
            while query.isActive and query.status["message"].startswith("Initializing"):
                time.sleep(0.05)
            failure = query.exception()
            if failure is None or _TOO_SLOW not in str(failure):
                break
        return query

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


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """What is started meanwhile (the JVM, and Python workers by it) writes its complaints there."""
    sys.stderr.flush()
    before = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
