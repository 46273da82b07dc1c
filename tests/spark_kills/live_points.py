"""Named points at which a live Spark driver's processes wait to be killed, or die.

The driver registers the sinks below instead of the real ones. Their classes are pickled by name, so
each process of Spark's that runs a part of a sink imports this module, which plants the point that
the environment names. Nothing of the sinks' own code is replaced, only called at a known moment.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.producer.transactions import Writer
from headrace.spark.sink.decisions import DecisionLog
from headrace.spark.sink.sink import StreamWriter
from headrace.spark.sink.sink_options import parse_sink_options
from headrace.spark.source.source import HeadraceSource
from headrace.spark.tables.sink import HeadraceTable, StreamTableWriter, table_of

TOPIC_POINTS = (
    "topic: after init",
    "topic: mid-produce",
    "topic: before the decision",
    "topic: after the decision",
    "topic: between ends",
    "topic: before Spark's commit file",
)
TABLE_POINTS = (
    "table: after init",
    "table: mid-write",
    "table: before the table commit",
    "table: after the table commit",
    "table: before Spark's commit file",
    "table: before the merge",
    "table: after the merge",
)
AMID_MERGE = "table: amid the merge"
"""Files are merged, and the table does not say so yet. Not seen in Delta: its library merges."""
WAIT, DIE, LOSE_SHUFFLE = "wait", "die", "lose shuffle"
MEET, SECOND_STANDS = "meet", "second stands"
"""What happens there: the process waits for the end of its driver, dies alone, or the shuffle's
files go, so that Spark runs the stage before again. Or a task waits until a second attempt at it is
there, and both go on, or the first alone."""
POINT, ACTION, SIGN, BLOCKS = (
    "HEADRACE_KILL_POINT",
    "HEADRACE_KILL_ACTION",
    "HEADRACE_KILL_SIGN",
    "HEADRACE_KILL_BLOCKS",
)
"""Environment: the point, what happens, the file that says it has (another ending with `.go` lets
what waits go on), and Spark's local directory."""
WAIT_SECONDS_MAX = 600.0


def reach(point: str) -> None:
    """Be at a point; the first process that is at the named one tells, and stays or dies."""
    if not point or os.environ.get(POINT) != point:
        return
    sign, action = Path(os.environ[SIGN]), os.environ[ACTION]
    task, attempt = _task_and_attempt()
    try:
        with sign.open("x") as told:
            told.write(f"{task}/{attempt}")
    except FileExistsError:
        first_task, _, first_attempt = sign.read_text().partition("/")
        if action in (MEET, SECOND_STANDS) and task == first_task and attempt != first_attempt:
            sign.with_suffix(".go").touch()
            if action == SECOND_STANDS:
                _wait_for(sign.with_suffix(".end"))
        return
    if action == DIE:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == LOSE_SHUFFLE:
        for file in Path(os.environ[BLOCKS]).rglob("shuffle_*"):
            file.unlink(missing_ok=True)
    else:
        _wait_for(sign.with_suffix(".go"))


def _wait_for(file: Path) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.02)


def _task_and_attempt() -> tuple[str, str]:
    """Which task of its stage this process runs, and which attempt at it; empty on the driver."""
    context = TaskContext.get()
    if context is None:
        return "", ""
    return str(context.partitionId()), str(context.attemptNumber())


def _is_task(writer: Writer) -> bool:
    return ".task-" in writer.transactional_id


def _after(work: Callable[..., Any], point: str, counts: Callable[..., bool]) -> Callable[..., Any]:
    async def replaced(*args: Any, **named: Any) -> Any:
        result = await work(*args, **named)
        if counts(result, *args, **named):
            reach(point)
        return result

    return replaced


def _plant() -> None:
    module: Any = transactions
    init, produce, before, decided, ends, _ = TOPIC_POINTS
    module.take_id = _after(transactions.take_id, init, lambda writer, *_, **__: _is_task(writer))
    module.end = _after(
        transactions.end, ends, lambda _, client, writer, *, commit: commit and _is_task(writer)
    )
    producer: Any = Producer
    producer.send_encoded = _after(Producer.send_encoded, produce, lambda *_, **__: True)
    log: Any = DecisionLog
    decide = _after(DecisionLog.decide, decided, lambda *_, **__: True)

    async def decide_reached(*args: Any, **named: Any) -> None:
        reach(before)
        await decide(*args, **named)

    log.decide = decide_reached


if POINT in os.environ:
    _plant()


class PlantedTopicWriter(StreamWriter):
    """Streams to topics, with the points."""

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Decide the batch."""
        super().commit(messages, batchId)
        reach(TOPIC_POINTS[-1])


class PlantedTopicSink(HeadraceSource):
    """`format("planted")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "planted"

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer with the points."""
        return PlantedTopicWriter(parse_sink_options(self.options, streaming=True), schema)


class PlantedTableWriter(StreamTableWriter):
    """Streams to a table, with the points."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Write one task's rows."""
        assert TaskContext.get() is not None
        return super().write(_watched(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the batch."""
        kind: Any = type(table_of(self._options))
        with (
            _between(kind, "append", TABLE_POINTS[2], TABLE_POINTS[3]),
            _between(kind, "merge", TABLE_POINTS[5], TABLE_POINTS[6]),
            _between(kind, "_rewritten", "", AMID_MERGE),
        ):
            super().commit(messages, batchId)
        reach(TABLE_POINTS[4])


@contextmanager
def _between(kind: Any, name: str, before: str, after: str) -> Iterator[None]:
    """Reach points before and after a method of the table's, where it has one of the name."""
    work: Callable[..., Any] | None = getattr(kind, name, None)
    if work is None:
        yield
        return

    def reached(*args: Any, **named: Any) -> Any:
        reach(before)
        done = work(*args, **named)
        reach(after)
        return done

    setattr(kind, name, reached)
    try:
        yield
    finally:
        setattr(kind, name, work)


def _watched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    reach(TABLE_POINTS[0])
    for batch in batches:
        yield batch
        reach(TABLE_POINTS[1])


class PlantedTable(HeadraceTable):
    """`format("planted-table")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "planted-table"

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer with the points."""
        return PlantedTableWriter(self.options, schema, overwrite)
