"""The finished batches of a run's queries, as Spark's listener reports them."""

from __future__ import annotations

import queue
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.pipeline.run.progress import batch_event
from headrace.spark.batch_counts import take_counts, take_task_counts
from headrace.spark.sessions.listener import progress_listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.run.event_log import EventLog
    from headrace.pipeline.run.freshness import Freshness

NAMES_MAX = 100
"""Names of undeclared keys of a topic that an event and the status have."""


class Counts(NamedTuple):
    """Directories with counts of a flow's batches."""

    checks: Path
    """Rows by the checks that they fail."""
    refused: Path
    """Refused records by topic."""
    unknown_keys: Path
    """Keys that no column has, by topic and name; a file of each task."""


class BatchEvents:
    """Collects batches on the listener's thread and writes them on the run's."""

    def __init__(self, flows: Mapping[str, str], counts: Mapping[str, Counts]) -> None:
        """`flows`: the flow of each query, by its name; `counts`: the directories of each flow's
        counts."""
        self._flows = flows
        self._counts = counts
        self._arrived: queue.SimpleQueue[tuple[str, Mapping[str, Any]]] = queue.SimpleQueue()

    @contextmanager
    def listening(self, spark: SparkSession, finished: Callable[[str], None]) -> Iterator[None]:
        """Collect batches in this context; `finished` gets the flow of each at once."""

        def show(progress: Mapping[str, Any]) -> None:
            flow = self._flows.get(progress.get("name") or "")
            # A trigger without records reports too, and has not finished a batch.
            if flow is not None and "addBatch" in progress.get("durationMs", {}):
                self._arrived.put((flow, progress))
                finished(flow)

        listener = progress_listener(show)
        spark.streams.addListener(listener)
        try:
            yield
        finally:
            with suppress(Exception):  # The JVM may have ended.
                spark.streams.removeListener(listener)

    def drain(self, spark: SparkSession, seconds: float) -> None:
        """Wait until Spark has reported all that happened, at most `seconds`."""
        context: Any = spark.sparkContext
        with suppress(Exception):  # A report that is missing stops no run.
            context._jsc.sc().listenerBus().waitUntilEmpty(int(seconds * 1000))

    def write(self, log: EventLog, freshness: Freshness) -> None:
        """Write the collected batches to the log, and what has become stale or fresh by now."""
        with suppress(queue.Empty):
            while True:
                flow, progress = self._arrived.get_nowait()
                event = batch_event(progress)
                counted = self._counted(flow, event["batch"])
                log.add("batch", flow=flow, **event, **counted)
                freshness.take(flow, counted.get("checks", {}).get("newest", {}))
        freshness.report(log.add, datetime.now(UTC))

    def _counted(self, flow: str, batch: int) -> dict[str, Any]:
        directories = self._counts[flow]
        found = {
            "checks": take_counts(directories.checks, batch),
            "refused": take_counts(directories.refused, batch),
            "unknown_keys": _summed(take_task_counts(directories.unknown_keys, batch)) or None,
        }
        return {name: counts for name, counts in found.items() if counts is not None}


def _summed(tasks: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return the sum of tasks' counts by topic and name, the most frequent names first."""
    sums: dict[str, Counter[str]] = {}
    for task in tasks:
        for topic, names in task.items():
            sums.setdefault(topic, Counter()).update(names)
    return {topic: dict(names.most_common(NAMES_MAX)) for topic, names in sums.items()}
