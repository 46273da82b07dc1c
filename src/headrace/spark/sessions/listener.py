"""attach(): streaming queries show as consumer groups, exactly, the last batch included.

Spark's progress events carry where every batch ended. The listener commits that to the group, so
that every Kafka tool shows the query's lag. It never decides where a query reads: the checkpoint
does.
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
    """Make `format("headrace")` known to a session of your own, and show its queries as groups.

    The format is registered to run in this Python, where the session is local and no other was
    chosen. The offsets of every batch of its streaming queries are committed to a group: that
    group is the source's `kafka.group.id` (or the one made from `groupIdPrefix`), else the
    query's name, else `spark-` and the query's id. A second call does nothing. A failure to commit
    is logged; the query goes on. SourceError for a session of Spark Connect.
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
    """Let no event of a query reach this Python once it has ended: the JVM prints a traceback."""
    for spark, listener in list(_attached.items()):
        with suppress(Exception):  # the JVM may have ended before, and there is nothing to save
            _end(spark, listener)


def _end(spark: Any, listener: Any) -> None:  # noqa: ANN401 - pyspark's
    """Stop a session that ends with this program: Spark shows its last batches before it does.

    One whose JVM another program has started only loses the listener.
    """
    if spark.sparkContext._jsc is None:
        return  # stopped by the program
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark.streams.removeListener(listener)
        return
    for query in spark.streams.active:
        with suppress(Exception):
            query.stop()
    spark.stop()


def group_of(position: Position, name: str | None, query_id: str) -> str:
    """Return the group a query's offsets are shown under."""
    return position.group or name or f"spark-{query_id}"


def positions_of(progress: Mapping[str, Any]) -> list[Position]:
    """Return where the sources of ours ended, of one batch's progress as Spark says it in JSON."""
    ends = [source.get("endOffset") for source in progress.get("sources", ())]
    return [Position.of_json(end) for end in ends if isinstance(end, Mapping) and MARK in end]


def _listener() -> "StreamingQueryListener":
    # Here, not above: the base class needs pyspark, which `headrace.spark` itself must not import.
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
        """Commits on progress, over one connection for each run; called by one thread."""

        def __init__(self) -> None:
            self._clusters: dict[tuple[str, str, str], Cluster] = {}

        @cached_property
        def _jlistener(self) -> Any:  # noqa: ANN401 - py4j's
            return _for_the_jvm(self, self.show)

        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            """Do nothing: nothing is read yet."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            """Do nothing: `show` is called in its place."""

        def show(self, progress: Mapping[str, Any]) -> None:
            """Commit the batch that ended, of its progress in JSON."""
            name = progress.get("name")
            for position in positions_of(progress):
                if position.told_by_source:
                    continue
                group = group_of(position, name, progress["id"])
                try:
                    self._cluster(progress["runId"], position).commit(group, position.offsets)
                except HeadraceError as error:  # another source's may be shown
                    _log.warning("offsets of %s are not shown: %s", name, error)

        def _cluster(self, run: str, position: Position) -> Cluster:
            key = (run, position.bootstrap, position.config_file)
            if key not in self._clusters:
                security = Security(config_file=position.config_file or None)
                self._clusters[key] = Cluster(position.bootstrap, Fetching(security=security))
            return self._clusters[key]

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            """Do nothing: there is nothing new."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """Close its connections: all batches were committed as they ended."""
            for key in [key for key in self._clusters if key[0] == str(event.runId)]:
                self._clusters.pop(key).close()

    return OffsetsListener()


def _for_the_jvm(
    listener: "StreamingQueryListener", show: Callable[[Mapping[str, Any]], None]
) -> Any:  # noqa: ANN401 - py4j's
    """Return what the JVM tells of events; each batch's progress goes to `show`, as JSON."""
    from pyspark import SparkContext
    from pyspark.sql.streaming.listener import JStreamingQueryListener

    class ProgressAsJson(JStreamingQueryListener):
        """Has the JVM say the progress of a batch in one answer.

        pyspark asks for each of its figures: 25 ms of CPU a batch, a third of all that one takes.
        """

        def onQueryProgress(self, jevent: Any) -> None:  # noqa: ANN401, N802
            """Read the event of a batch that ended, and show it."""
            show(json.loads(jevent.progress().json()))

    jvm: Any = SparkContext._jvm
    return jvm.PythonStreamingQueryListenerWrapper(ProgressAsJson(listener))
