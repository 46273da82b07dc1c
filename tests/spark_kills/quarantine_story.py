"""A query with a quarantine, played as Spark plays it, its processes killed at named points.

Each task decodes JSON records, spools what is refused and writes the others to a sink: a table or
topics. Driver and tasks are processes of their own. What Spark does around them is played here, so
that a kill falls exactly where it is named. After a kill the parser may be another: then other
records are sound. After each batch, each record is in the sink or in the quarantine, once.
"""

import json
import os
import pickle
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.typed_rows import Mode, TypedValues
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.spark.quarantine import range_task, sink_batch
from headrace.spark.quarantine.names import quarantine_topic
from headrace.spark.quarantine.options import SourceQuarantine
from headrace.spark.quarantine.range_task import QuarantinedRange, TaskQuarantine
from headrace.spark.quarantine.spool import Planned, RangeSpool, Spool
from headrace.spark.quarantine.topics import prepare_topics
from headrace.spark.sink import sink_task
from headrace.spark.sink.decisions import DecisionLog
from headrace.spark.sink.sink import stream_writer
from headrace.spark.tables import sink as table_sink
from headrace.spark.tables.options import parse_table_options
from tests.spark.kit import TIME_MS, Topics
from tests.spark.sink_kit import committed_rows
from tests.spark_kills.sink_story import Killed, forked
from tests.support.spark.tables import read

POINTS = (
    "before the spool's file",
    "after the spool's file",
    "before the manifest",
    "after the manifest",
    "before the sink's commit",
    "after the sink's commit",
    "before publishing",
    "amid publishing",
    "before the publication's end",
    "after the publication's end",
    "amid the sweep",
    "before Spark's commit file",
)
TASK_POINTS = POINTS[:2]
SINKS = ("parquet", "delta", "iceberg", "topic")
FLOW = "orders"
_PARTITIONS, _TASKS = 2, 3
_DDL = "id BIGINT NOT NULL"
_TABLE_ROWS = StructType([StructField("id", LongType()), StructField("_offset", LongType())])
_TOPIC_ROWS = StructType([StructField("value", StringType())])
HEADERS = [("trace", b"\x00\xff"), ("trace", None)]


class Context:
    """The local properties of a Spark task."""

    def __init__(self, query: str, batch: int, run: str) -> None:
        self._properties = {
            "sql.streaming.queryId": query,
            "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": run,
        }

    def get(self) -> "Context":
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self._properties.get(name)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(owner: Any, name: str, *, before: bool, at: int = 1) -> None:
    """Let this process die in the so-manieth call of a function, before or after its work."""
    work, calls = getattr(owner, name), 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == at:
            _die()
        result = work(*arguments, **named)
        if calls == at:
            _die()
        return result

    async def dying_later(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == at:
            _die()
        result = await work(*arguments, **named)
        if calls == at:
            _die()
        return result

    import inspect

    setattr(owner, name, dying_later if inspect.iscoroutinefunction(work) else dying)


def plant(point: str | None, kind: str) -> None:
    """Let this process die at the point. It is a fork: no other process is changed."""
    if point in TASK_POINTS:
        _dying(RangeSpool, "finish", before=point.startswith("before"))
    elif point in ("before the manifest", "after the manifest"):
        _dying(sink_batch, "write_manifest", before=point.startswith("before"))
    elif point in ("before the sink's commit", "after the sink's commit"):
        before = point.startswith("before")
        if kind == "topic":
            _dying(DecisionLog, "decide", before=before)
        else:
            options = {"tableFormat": kind, "path": "/t", "table": "a.b"}
            if kind != "iceberg":
                del options["table"]
            table = table_sink.table_of(parse_table_options(options, streaming=False))
            _dying(type(table), "append", before=before)
    elif point == "before publishing":
        _dying(sink_batch, "publish", before=True)
    elif point == "amid publishing":
        _dying(Producer, "flush", before=False, at=2 if kind == "topic" else 1)
    elif point in ("before the publication's end", "after the publication's end"):
        _die_in_end(before=point.startswith("before"))
    elif point == "amid the sweep":
        _dying(shutil, "rmtree", before=False)


def _die_in_end(*, before: bool) -> None:
    end: Any = transactions.end

    async def dying(client: Any, writer: Any, *, commit: bool) -> None:
        own = writer.transactional_id.endswith(".quarantine")
        if own and before:
            _die()
        await end(client, writer, commit=commit)
        if own:
            _die()

    module: Any = transactions
    module.end = dying


class QuarantineStory:
    """A flow from a topic of two partitions to a sink, a batch at a time."""

    def __init__(self, topics: Topics, place: Path, kind: str, **options: str) -> None:
        os.environ["HEADRACE_NUMBA"] = "0"  # the rows are few
        self.kind, self.place = kind, place
        self.topics = topics
        self._given = options
        self.topic = topics.create(_PARTITIONS)
        self.target = topics.create(2) if kind == "topic" else ""
        self.query = f"q-{self.topic}"
        self.spool = Spool(str(place / "spool"), FLOW)
        self.batch = 0
        self.first = 0
        """First offset of the next batch, in both partitions."""
        self.refuses: Callable[[int], bool] = lambda number: number % 3 == 0
        """Whether the parser refuses a record."""
        self.counts: Counter[str] = Counter()
        (place / "check" / "offsets").mkdir(parents=True)
        (place / "check" / "metadata").write_text(json.dumps({"id": self.query}))
        quarantine = SourceQuarantine(self.spool, self.pipeline, 86_400_000, "0123456789abcdef")
        run(prepare_topics(topics.client, quarantine, {self.topic: _PARTITIONS}))

    @property
    def pipeline(self) -> str:
        return f"p-{self.topic}"

    @property
    def options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.topics.bootstrap, "pipeline": self.pipeline,
            "checkpointLocation": str(self.place / "check"),
            "quarantineSpool": self.spool.directory, "quarantineFlow": FLOW, **self._given,
        }  # fmt: skip
        if self.kind == "topic":
            return {**options, "topic": self.target}
        options |= {"tableFormat": self.kind, "path": str(self.place / "table")}
        return {**options, "table": "sales.orders"} if self.kind == "iceberg" else options

    def writer(self) -> Any:
        """A writer as Spark makes it, in each process."""
        if self.kind == "topic":
            return stream_writer(self.options, _TOPIC_ROWS)
        return table_sink.StreamTableWriter(self.options, _TABLE_ROWS, False)

    def plan(self) -> int:
        """Write down what the batch reads, if that is not written down; return its size."""
        size = 20 + self.batch % 7
        content = f"v1\n{{}}\n{self.first}+{size}"
        (self.place / "check" / "offsets" / str(self.batch)).write_text(content)
        return size

    def play(self, point: str | None, *, then: Callable[[int], bool] | None = None) -> None:
        """Play the next batch, killed at `point` once; `then`: the parser after the kill."""
        size = self.plan()
        try:
            self.attempt(size, point)
        except Killed:
            self.counts[f"{self.kind}: killed {point}"] += 1
            self.refuses = then or self.refuses
            self.attempt(size)
        self.done(size)

    def done(self, size: int) -> None:
        """End the batch as Spark does, and check where its records are."""
        self.batch, self.first = self.batch + 1, self.first + size
        self.check()

    def attempt(self, size: int, point: str | None = None) -> None:
        """Run the batch in a new run of the query. Raises Killed."""
        messages = self.tasks(self.begin(), str(uuid.uuid4()), size, point)
        self.commit(messages, point)

    def begin(self) -> bytes:
        """Make the writer that Spark sends to the tasks of a batch."""
        sent: bytes = self._forked(lambda: pickle.dumps(self.writer()))
        return sent

    def tasks(self, sent: bytes, run_id: str, size: int, point: str | None = None) -> list[Any]:
        """Run all tasks of the batch; return their messages."""
        return [
            self.task(sent, run_id, partition, part, size, point if part == 1 else None)
            for partition in range(_PARTITIONS)
            for part in range(_TASKS)
        ]

    def commit(self, messages: list[Any], point: str | None = None) -> None:
        """Commit the batch in a process of its own, as Spark does."""
        planted = None if point in TASK_POINTS else point
        self._forked(lambda: self.writer().commit(messages, self.batch), planted)
        if point == POINTS[-1]:
            raise Killed

    def task(
        self, sent: bytes, run_id: str, partition: int, part: int, size: int,
        point: str | None = None,
    ) -> Any:  # fmt: skip
        """Run one task in a process of its own; return its message."""
        cuts = [self.first + size * at // _TASKS for at in range(_TASKS + 1)]
        offsets = (cuts[part], cuts[part + 1])

        def work() -> Any:
            context: Any = Context(self.query, self.batch, run_id)
            for module in (range_task, sink_task, table_sink):
                module.TaskContext = context  # type: ignore[attr-defined]
            planned = tuple(
                Planned(number, self.first, self.first + size) for number in range(_PARTITIONS)
            )
            rows = QuarantinedRange(
                TypedValues(_DDL, Mode.QUARANTINE),
                ("offset",),
                TaskQuarantine(self.spool, "0123456789abcdef", planned),
                TopicPartition(self.topic, partition),
                offsets,
            ).rows(self._records(partition, offsets))
            return pickle.loads(sent).write(self._sinks_rows(rows))

        return self._forked(work, point if point in TASK_POINTS else None)

    def _forked(self, work: Callable[[], Any], point: str | None = None) -> Any:
        def planted() -> Any:
            plant(point, self.kind)
            return work()

        return forked(planted)

    def number(self, partition: int, offset: int) -> int:
        return offset * _PARTITIONS + partition

    def _records(self, partition: int, offsets: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The records of a range in RecordBatches of a few, as the source reads them."""
        for first in range(*offsets, 3):
            found = range(first, min(first + 3, offsets[1]))
            numbers = [self.number(partition, offset) for offset in found]
            words = [f'"{number}"' if self.refuses(number) else number for number in numbers]
            headers = [{"key": key, "value": value} for key, value in HEADERS]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([f'{{"id":{word}}}'.encode() for word in words], pa.binary()),
                    pa.array(list(found), pa.int64()),
                    pa.array([f"k{number}".encode() for number in numbers], pa.binary()),
                    pa.array([(TIME_MS + n) * 1000 for n in numbers], TYPES["timestamp"]),
                    pa.array([headers] * len(found), TYPES["headers"]),
                ],
                names=["value", "offset", "key", "timestamp", "headers"],
            )

    def _sinks_rows(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            if self.kind != "topic":
                yield batch
                continue
            values = batch.column("id").cast(pa.string())
            yield pa.RecordBatch.from_arrays([values], names=["value"])

    def written(self) -> list[int]:
        """The numbers in the sink."""
        if self.kind == "topic":
            rows = committed_rows(self.topics.bootstrap, self.target)
            return [int(row["value"]) for row in rows]
        # In a fork: deltalake's threads do not survive one, so this process never starts them.
        found: list[int] = forked(self._ids)
        return found

    def _ids(self) -> list[int]:
        table = read(self.place / "table", self.kind)
        # A Parquet directory without files has no columns.
        return table.column("id").to_pylist() if table.num_columns else []

    def quarantined(self) -> list[dict[str, Any]]:
        """The records in the quarantine that a reader of committed data sees."""
        return committed_rows(self.topics.bootstrap, quarantine_topic(self.topic))

    def check(self) -> None:
        """Compare the sink and the quarantine with the records of all batches."""
        written = self.written()
        refused = [int(json.loads(row["value"])["id"]) for row in self.quarantined()]
        found = Counter([*written, *refused])
        expected = range(self.first * _PARTITIONS)
        missing = [number for number in expected if not found[number]]
        doubled = [number for number, count in found.items() if count > 1]
        assert not missing, f"missing: {missing}"
        assert not doubled, f"more than once: {doubled}"
        assert set(found) <= set(expected)
        left = [path.name for path in Path(self.spool.directory).rglob("*.arrow")]
        assert not left, f"left in the spool: {left}"
        self.counts[f"{self.kind}: refused"] = len(refused)
        self.counts[f"{self.kind}: written"] = len(written)
