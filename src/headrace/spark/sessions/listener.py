"""attach(): commit the offsets of each micro-batch to a consumer group, the last batch included.

Spark's progress events contain the end offsets of each batch. The listener commits them to the
group, so that Kafka tools show the query's lag. They never decide where a query resumes: the
checkpoint does.
"""

import atexit
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headrace.model.errors import HeadraceError
from headrace.spark.sessions.register import register
from headrace.spark.source.offsets import MARK, Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

_log = logging.getLogger(__name__)
_attached: "WeakKeyDictionary[Any, StreamingQueryListener]" = WeakKeyDictionary()
_attaching = threading.Lock()


def attach(spark: "SparkSession") -> None:
    """Register `format("headrace")` with a session of your own, and show its queries as groups.

    The format runs in this Python if the session is local and no other Python was chosen. The
    offsets of every batch of a streaming query are committed to a consumer group: the source's
    `kafka.group.id` (or one made from `groupIdPrefix`), else the query's name, else `spark-` and
    the query's id. A second call does nothing. A failed commit is logged; the query continues.
    SourceError for a session of Spark Connect.
    """
    with _attaching:
        if spark not in _attached:
            register(spark, listened=True)
            listener = _listener()
            spark.streams.addListener(listener)
            if not _attached:
                atexit.unregister(_end_all)
                atexit.register(_end_all)
            _attached[spark] = listener


def _end_all() -> None:
    """Detach from all sessions at exit: the JVM prints a traceback if an event finds no Python."""
    for spark, listener in list(_attached.items()):
        with suppress(Exception):  # The JVM may have ended before, and nothing needs saving.
            _end(spark, listener)


def _end(spark: Any, listener: Any) -> None:  # noqa: ANN401 - pyspark's
    """Stop a session that ends with this program; Spark reports its last batches before that.

    If another program started the JVM, only the listener is removed.
    """
    if spark.sparkContext._jsc is None:
        return  # The program has stopped it.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark.streams.removeListener(listener)
        return
    for query in spark.streams.active:
        with suppress(Exception):
            query.stop()
    spark.stop()


def group_of(position: Position, name: str | None, query_id: str) -> str:
    """Return the consumer group for a query's offsets."""
    return position.group or name or f"spark-{query_id}"


def positions_of(progress: Mapping[str, Any]) -> list[Position]:
    """Return the end positions of this format's sources in a batch's progress JSON."""
    ends = [source.get("endOffset") for source in progress.get("sources", ())]
    return [Position.of_json(end) for end in ends if isinstance(end, Mapping) and MARK in end]


def progress_listener(show: Callable[[Mapping[str, Any]], None]) -> "StreamingQueryListener":
    """Return a listener that passes the progress of each finished batch, as JSON, to `show`.

    Spark calls it on a thread of its own.
    """
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class ProgressListener(StreamingQueryListener):
        """Passes progress on and nothing else."""

        @cached_property
        def _jlistener(self) -> Any:  # noqa: ANN401 - py4j's
            return _for_the_jvm(self, show)

        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            """Do nothing."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            """Do nothing: the JVM calls `show` instead."""

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            """Do nothing."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """Do nothing."""

    return ProgressListener()


def _listener() -> "StreamingQueryListener":
    # Defined in a function: the base class needs pyspark, which `headrace.spark` itself must not
    # import.
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    from headrace.spark.security import Security
    from headrace.spark.source.cluster import Cluster
    from headrace.spark.source.options import Fetching

    class OffsetsListener(StreamingQueryListener):
        """Commits offsets on progress events, over one connection per run; called by one thread."""

        def __init__(self) -> None:
            self._clusters: dict[tuple[str, str, str], Cluster] = {}

        @cached_property
        def _jlistener(self) -> Any:  # noqa: ANN401 - py4j's
            return _for_the_jvm(self, self.show)

        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            """Do nothing: no records have been read yet."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            """Do nothing: the JVM calls `show` instead."""

        def show(self, progress: Mapping[str, Any]) -> None:
            """Commit the offsets of a finished batch, given its progress as JSON."""
            name = progress.get("name")
            for position in positions_of(progress):
                if position.told_by_source:
                    continue
                group = group_of(position, name, progress["id"])
                try:
                    self._cluster(progress["runId"], position).commit(group, position.offsets)
                except HeadraceError as error:  # A failure of one source must not hide another one.
                    _log.warning("cannot commit offsets of query %s: %s", name, error)

        def _cluster(self, run: str, position: Position) -> Cluster:
            key = (run, position.bootstrap, position.config_file)
            if key not in self._clusters:
                security = Security(config_file=position.config_file or None)
                self._clusters[key] = Cluster(position.bootstrap, Fetching(security=security))
            return self._clusters[key]

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            """Do nothing: no batch ran."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """Close the run's connections: each batch was committed when it ended."""
            for key in [key for key in self._clusters if key[0] == str(event.runId)]:
                self._clusters.pop(key).close()

    return OffsetsListener()


def _for_the_jvm(
    listener: "StreamingQueryListener", show: Callable[[Mapping[str, Any]], None]
) -> Any:  # noqa: ANN401 - py4j's
    """Return the object that receives the JVM's events and passes progress as JSON to `show`."""
    from pyspark import SparkContext
    from pyspark.sql.streaming.listener import JStreamingQueryListener

    class ProgressAsJson(JStreamingQueryListener):
        """Fetches a batch's progress from the JVM in one call.

        pyspark calls the JVM for each figure: 25 ms of CPU a batch, a third of a batch's total.
        """

        def onQueryProgress(self, jevent: Any) -> None:  # noqa: ANN401, N802
            """Read the progress of a finished batch and pass it to `show`."""
            show(json.loads(jevent.progress().json()))

    jvm: Any = SparkContext._jvm
    return jvm.PythonStreamingQueryListenerWrapper(ProgressAsJson(listener))
