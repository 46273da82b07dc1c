"""A query with a quarantine, played as Spark plays it, its processes killed at named points.

Each task decodes JSON records, spools what is refused and writes the others to a sink: a table or
topics. In the stage `check` the records are in a topic, some rows fail a check, and the task spools
their records; a few records are refused by the decoder in the same batches. Driver and tasks are
processes of their own. What Spark does around them is played here, so that a kill falls exactly
where it is named. After a kill the parser may be another: then other records are sound. After each
batch, each record is in the sink or in the quarantine, once.
"""

import json
import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.typed_rows import Mode, TypedValues
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.record.batch import Record
from headrace.spark.checks.check import FAILED, Check, Outcome
from headrace.spark.checks.options import RowChecks
from headrace.spark.quarantine import range_task
from headrace.spark.quarantine.names import quarantine_topic
from headrace.spark.quarantine.options import SourceQuarantine
from headrace.spark.quarantine.range_task import QuarantinedRange, TaskQuarantine
from headrace.spark.quarantine.refused import CHECK, DECODE
from headrace.spark.quarantine.spool import CHECKED, REPLAYED, SUFFIX, Planned, Spool
from headrace.spark.quarantine.topics import prepare_topics
from headrace.spark.sink import sink_task
from headrace.spark.sink.sink import stream_writer
from headrace.spark.tables import sink as table_sink
from tests.spark.kit import TIME_MS, Topics
from tests.spark.sink_kit import committed_rows
from tests.spark_kills.quarantine_points import POINTS, TASK_POINTS, plant
from tests.spark_kills.sink_story import Killed, forked
from tests.support.spark.tables import read

SINKS = ("parquet", "delta", "iceberg", "topic")
FLOW = "orders"
_PARTITIONS, _TASKS = 2, 3
_DDL = "id BIGINT NOT NULL"
_TABLE_ROWS = StructType([StructField("id", LongType()), StructField("_offset", LongType())])
_TOPIC_ROWS = StructType([StructField("value", StringType())])
_CHECKED = [
    StructField("_partition", IntegerType()),
    StructField(FAILED, ArrayType(StringType())),
]
_CHECK = Check("number", "number", Outcome.QUARANTINE)
_SCHEMA_DIGEST = "0123456789abcdef"
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


def _is_spooled(path: Path) -> bool:
    return path.suffix in (SUFFIX, REPLAYED, CHECKED)


class QuarantineStory:
    """A flow from a topic of two partitions to a sink, a batch at a time."""

    def __init__(
        self, topics: Topics, place: Path, kind: str, stage: str = DECODE, **options: str
    ) -> None:
        self.kind, self.place, self.stage = kind, place, stage
        self.topics = topics
        self._given = options
        self.topic = topics.create(_PARTITIONS)
        self.target = topics.create(2) if kind == "topic" else ""
        self.query = f"q-{self.topic}"
        self.spool = Spool(str(place / "spool"), FLOW)
        self.batch = 0
        self.first = 0
        """First offset of the next batch, in both partitions."""
        self._appended = 0
        """End of both partitions' records in the topic."""
        self.refuses: Callable[[int], bool] = lambda number: number % 3 == 0
        """Whether the parser, or the check, refuses a record."""
        self.counts: Counter[str] = Counter()
        (place / "check" / "offsets").mkdir(parents=True)
        (place / "check" / "metadata").write_text(json.dumps({"id": self.query}))
        quarantine = SourceQuarantine(self.spool, self.pipeline, 86_400_000, _SCHEMA_DIGEST)
        run(prepare_topics(topics.client, quarantine, {self.topic: _PARTITIONS}))

    @property
    def name(self) -> str:
        """Sink and stage, as in the counts."""
        return self.kind if self.stage == DECODE else f"{self.kind}, check"

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
        if self.stage == CHECK:
            options |= RowChecks((_CHECK,), self.topic, None, _SCHEMA_DIGEST).to_option()
        if self.kind == "topic":
            return {**options, "topic": self.target}
        options |= {"tableFormat": self.kind, "path": str(self.place / "table")}
        return {**options, "table": "sales.orders"} if self.kind == "iceberg" else options

    def writer(self) -> Any:
        """A writer as Spark makes it, in each process."""
        rows = _TOPIC_ROWS if self.kind == "topic" else _TABLE_ROWS
        if self.stage == CHECK:
            offset = [StructField("_offset", LongType())] if self.kind == "topic" else []
            rows = StructType([*rows, *offset, *_CHECKED])
        if self.kind == "topic":
            return stream_writer(self.options, rows)
        return table_sink.StreamTableWriter(self.options, rows, False)

    def plan(self) -> int:
        """Write down what the batch reads, if that is not written down; return its size."""
        size = 20 + self.batch % 7
        content = f"v1\n{{}}\n{self.first}+{size}"
        (self.place / "check" / "offsets" / str(self.batch)).write_text(content)
        if self.stage == CHECK and self._appended == self.first:
            self._append(size)
        return size

    def _append(self, size: int) -> None:
        """Write the batch's records to the topic, from which failed ones are read again."""
        for partition in range(_PARTITIONS):
            numbers = [self.number(partition, self.first + at) for at in range(size)]
            records = [
                Record(at, TIME_MS + number, b"k%d" % number, self._value(number), HEADERS)
                for at, number in enumerate(numbers)
            ]
            self.topics.append(self.topic, partition, records)
        self._appended += size

    def play(self, point: str | None, *, then: Callable[[int], bool] | None = None) -> None:
        """Play the next batch, killed at `point` once; `then`: the parser after the kill."""
        size = self.plan()
        try:
            self.attempt(size, point)
        except Killed:
            self.counts[f"{self.name}: killed {point}"] += 1
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
                TaskQuarantine(self.spool, _SCHEMA_DIGEST, planned),
                TopicPartition(self.topic, partition),
                offsets,
            ).rows(self._records(partition, offsets))
            return pickle.loads(sent).write(self._sinks_rows(rows, partition))

        return self._forked(work, point if point in TASK_POINTS else None)

    def _forked(self, work: Callable[[], Any], point: str | None = None) -> Any:
        def planted() -> Any:
            plant(point, self.kind)
            return work()

        return forked(planted)

    def _value(self, number: int) -> bytes:
        """The value of a record, which the decoder refuses or accepts."""
        malformed = number % 11 == 5 if self.stage == CHECK else self.refuses(number)
        return b'{"id":"%d"}' % number if malformed else b'{"id":%d}' % number

    def number(self, partition: int, offset: int) -> int:
        return offset * _PARTITIONS + partition

    def _records(self, partition: int, offsets: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The records of a range in RecordBatches of a few, as the source reads them."""
        for first in range(*offsets, 3):
            found = range(first, min(first + 3, offsets[1]))
            numbers = [self.number(partition, offset) for offset in found]
            headers = [{"key": key, "value": value} for key, value in HEADERS]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([self._value(number) for number in numbers], pa.binary()),
                    pa.array(list(found), pa.int64()),
                    pa.array([f"k{number}".encode() for number in numbers], pa.binary()),
                    pa.array([(TIME_MS + n) * 1000 for n in numbers], TYPES["timestamp"]),
                    pa.array([headers] * len(found), TYPES["headers"]),
                ],
                names=["value", "offset", "key", "timestamp", "headers"],
            )

    def _sinks_rows(
        self, rows: Iterator[pa.RecordBatch], partition: int
    ) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            ids = batch.column("id")
            if self.kind == "topic":
                batch = batch.append_column("value", ids.cast(pa.string()))
            if self.stage == CHECK:
                failed = [[_CHECK.name] if self.refuses(each) else [] for each in ids.to_pylist()]
                places = pa.array([partition] * len(batch), pa.int32())
                batch = batch.append_column("_partition", places)
                batch = batch.append_column(FAILED, pa.array(failed, pa.list_(pa.string())))
            yield batch.drop_columns(["id"]) if self.kind == "topic" else batch

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
        rows = self.quarantined()
        refused = [int(json.loads(row["value"])["id"]) for row in rows]
        for row, number in zip(rows, refused, strict=True):
            headers = [(header["key"], header["value"]) for header in row["headers"][:2]]
            assert (row["key"], headers) == (b"k%d" % number, HEADERS)
            assert int(row["timestamp"].timestamp() * 1000) == TIME_MS + number
        found = Counter([*written, *refused])
        expected = range(self.first * _PARTITIONS)
        missing = [number for number in expected if not found[number]]
        doubled = [number for number, count in found.items() if count > 1]
        assert not missing, f"missing: {missing}"
        assert not doubled, f"more than once: {doubled}"
        assert set(found) <= set(expected)
        left = [path.name for path in Path(self.spool.directory).rglob("*") if _is_spooled(path)]
        assert not left, f"left in the spool: {left}"
        self.counts[f"{self.name}: refused"] = len(refused)
        self.counts[f"{self.name}: written"] = len(written)
