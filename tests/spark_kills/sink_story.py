"""One sink, played as Spark plays it, its processes killed at named points and begun again.

Driver, tasks and commit are processes of their own that run the sink's code; what Spark does around
them (batches, checkpoint files, retries, speculation, another number of tasks) is played here, so
that a kill falls exactly where it is named. After each batch every number of it is there once.
"""

import importlib
import json
import os
import pickle
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.spark.sink import sink_task
from headrace.spark.sink.decisions import DecisionLog
from headrace.spark.sink.sink import StreamWriter, stream_writer
from tests.spark.sink_kit import numbers_of

POINTS = (
    "after init",
    "mid-produce",
    "before the decision",
    "after the decision",
    "between ends",
    "before Spark's commit file",
)
ROWS_MAX = 400
_TASK_POINTS = POINTS[:2]
_SCHEMA = StructType([StructField("topic", StringType()), StructField("value", StringType())])


class Killed(Exception):
    """The process was killed, as it was to be."""


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(work: Callable[..., Any], *, before: bool = False, at: int = 1) -> Callable[..., Any]:
    """`work`, in whose `at`-th call the process dies."""
    calls = 0

    async def replaced(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == at:
            _die()
        result = await work(*args, **named)
        if calls == at:
            _die()
        return result

    return replaced


def _plant(point: str | None) -> None:
    """Let this process die at the point. It is a fork: nobody else sees what is replaced."""
    module: Any = transactions
    if point == "after init":
        module.take_id = _dying(transactions.take_id)
    elif point == "mid-produce":
        kind: Any = Producer
        kind.send_encoded = _dying(Producer.send_encoded)
    elif point in ("before the decision", "after the decision"):
        log: Any = DecisionLog
        log.decide = _dying(DecisionLog.decide, before=point.startswith("before"))
    elif point == "between ends":
        module.end = _dying(transactions.end, at=3)  # the decision's own is the first


def forked(work: Callable[[], Any], *, point: str | None = None) -> Any:
    """What `work` gives in a process of its own. Killed where it died, as it was to."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.environ["HEADRACE_NUMBA"] = "0"  # the rows are few
        known = set(sys.modules)
        try:
            _plant(point)
            answer: Any = work()
        except BaseException as error:  # noqa: BLE001 - it is handed on
            answer = RuntimeError(f"{error}\n{traceback.format_exc()}")
        with os.fdopen(writing, "wb") as out:
            out.write(pickle.dumps((answer, sorted(sys.modules.keys() - known))))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as came:
        data = came.read()
    os.waitpid(process, 0)
    if not data:
        raise Killed
    answer, imported = pickle.loads(data)
    _import(imported)
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def _import(modules: list[str]) -> None:
    """Import what a fork imported, so that the next one need not."""
    # Not for longer: a JVM that a later test starts would pass it to its workers.
    with patch.dict(os.environ, HEADRACE_NUMBA="0"):
        for module in modules:
            with suppress(ImportError):
                importlib.import_module(module)


class _Context:
    """What a task asks of Spark."""

    def __init__(self, batch: int) -> None:
        self._batch = batch

    def get(self) -> "_Context":
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return str(self._batch) if name == "streaming.sql.batchId" else None


class SinkStory:
    """A query that writes numbers into topics, a batch at a time."""

    def __init__(
        self, bootstrap: str, topics: list[str], place: Path, seed: int, **options: str
    ) -> None:
        self.bootstrap, self.topics = bootstrap, topics
        self._place = place
        self._chance = random.Random(seed)
        self._options = {
            "kafka.bootstrap.servers": bootstrap,
            "pipeline": place.name,
            "checkpointLocation": str(place),
            "kafka.batch.size": "512",
            **options,
        }
        self.batch = 0
        self.first = 0
        self.counts: Counter[str] = Counter()
        (place / "offsets").mkdir(parents=True)
        (place / "metadata").write_text(json.dumps({"id": place.name}))

    def _rows(self, numbers: range) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "topic": [self.topics[number % len(self.topics)] for number in numbers],
                "value": [str(number) for number in numbers],
            }
        )

    def writer(self) -> StreamWriter:
        """A writer as Spark makes it, anew in each process."""
        return stream_writer(self._options, _SCHEMA)

    def plan(self) -> range:
        """Write down what the batch reads, if that is not written down."""
        size = 50 + self.batch * 13 % (ROWS_MAX - 50)
        (self._place / "offsets" / str(self.batch)).write_text(f"v1\n{{}}\n{self.first}+{size}")
        return range(self.first, self.first + size)

    def play(self, point: str | None) -> None:
        """Play the next batch, killed at `point` the first time, until it is written."""
        numbers = self.plan()
        while True:
            try:
                self._attempt(numbers, point)
                break
            except Killed:
                self.counts[f"killed {point}"] += 1
                point = None
        if self._chance.random() < 0.2:
            self._attempt(numbers, None)  # the commit file was not written: once more
            self.counts["repeated whole"] += 1
        self.batch, self.first = self.batch + 1, numbers.stop
        found = numbers_of(self.bootstrap, *self.topics)
        assert found == list(range(self.first)), _difference(found, self.first)
        self.counts["rows"] = len(found)

    def _attempt(self, numbers: range, point: str | None) -> None:
        tasks = self._chance.choice([8, 5, 3])
        sent = forked(lambda: pickle.dumps(self.writer()))
        messages = [
            self._task(sent, numbers[at::tasks], point if at == tasks // 2 else None)
            for at in range(tasks)
        ]
        self.commit(messages, point)

    def _task(self, sent: bytes, numbers: range, point: str | None) -> Any:
        point = point if point in _TASK_POINTS else None
        try:
            message = self.write(sent, numbers, point)
        except Killed:
            if self._chance.random() < 0.5:
                raise  # the driver dies with it
            self.counts[f"killed {point}"] += 1
            self.counts["tasks tried again"] += 1
            message = self.write(sent, numbers)
        if self._chance.random() < 0.1:
            self.counts["speculative tasks"] += 1
            self.write(sent, numbers)  # ends too late: its message counts for nothing
        return message

    def write(self, sent: bytes, numbers: range, point: str | None = None) -> Any:
        """Run one task's attempt in a process of its own; its message."""

        def work() -> Any:
            module: Any = sink_task
            module.TaskContext = _Context(self.batch)
            rows = self._rows(numbers)
            cuts = (rows.slice(at, 7) for at in range(0, len(rows), 7))
            return pickle.loads(sent).write(cuts)

        return forked(work, point=point)

    def commit(self, messages: list[Any], point: str | None = None) -> None:
        """Commit the batch in a process of its own, as Spark does."""
        batch = self.batch
        planted = None if point in _TASK_POINTS else point
        forked(lambda: self.writer().commit(messages, batch), point=planted)
        if point == POINTS[-1]:
            raise Killed


def _difference(found: list[int], until: int) -> str:
    counted = Counter(found)
    missing = [number for number in range(until) if not counted[number]]
    doubled = [number for number, count in counted.items() if count > 1]
    return f"missing {missing[:9]} ({len(missing)}), doubled {doubled[:9]} ({len(doubled)})"
