"""The sink's tasks by themselves: what they wait for, add, abort, and how rows are gathered."""

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.client.producer.transactions import OpenTransaction, Writer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SinkError
from headrace.spark.sink import sink_task
from headrace.spark.sink.sink_columns import SinkColumns
from headrace.spark.sink.sink_options import SinkOptions
from headrace.spark.sink.sink_task import SinkMessage, client_of, write_rows
from tests.support.spark.sink_parts import DRIVER, ONE, TOKEN, run, sink

if TYPE_CHECKING:
    from collections.abc import Callable

# --- tasks ----------------------------------------------------------------------------------------


class Producing:
    """A task's client, producer, encoder and coordinator; what they are told, in order."""

    batch_bytes = 1 << 18

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.retry_seconds = 0.0
        self.told: list[str] = []
        self.refused: list[tuple[bool, ErrorCode]] = []
        self.driver: OpenTransaction | None = OpenTransaction(DRIVER, "Empty", 10_000, -1)
        self.when_adding: Callable[[], None] = lambda: None
        transactions = SimpleNamespace(
            take_id=self._take_id, add_partitions=self._add, end=self._end,
            offers_two_phases=self._offers, describe=self._describe,
        )  # fmt: skip
        self.transactions = transactions
        monkeypatch.setattr(sink_task, "transactions", transactions)
        monkeypatch.setattr(sink_task, "run", run)
        monkeypatch.setattr(sink_task, "client_of", lambda _: self)
        monkeypatch.setattr(sink_task, "Producer", lambda *_, **__: self)
        monkeypatch.setattr(sink_task, "RowEncoder", lambda *_, **__: self)

    def __enter__(self) -> "Producing":
        return self

    def __exit__(self, *_: object) -> None:
        self.told.append("close")

    def encode(self, rows: pa.Table, topic: str | None) -> list[tuple[TopicPartition, str]]:
        return [(TopicPartition("t", at), "batch") for at in sorted(set(rows["value"].to_pylist()))]

    def write_as(self, *writer: Any) -> None:
        self.told.append("write as")

    async def send_encoded(self, partition: TopicPartition, batch: str) -> None:
        self.told.append(f"send {partition.partition}")

    async def flush(self) -> None:
        self.told.append("flush")

    async def _take_id(self, _: Any, name: str, timeout_ms: int, *, two_phase: bool) -> Writer:
        self.told.append(f"take {two_phase}")
        for phases, code in self.refused:
            if phases is two_phase:
                raise ApiError(code)
        return ONE

    async def _offers(self, _: Any) -> bool:
        return True

    async def _describe(self, _: Any, names: list[str]) -> dict[str, OpenTransaction]:
        assert names == [DRIVER.transactional_id]
        self.told.append("look")
        return {} if self.driver is None else {DRIVER.transactional_id: self.driver}

    async def _add(self, _: Any, writer: Writer, partitions: set[TopicPartition]) -> None:
        self.when_adding()
        self.told.append(f"add {sorted(place.partition for place in partitions)}")

    async def _end(self, _: Any, writer: Writer, *, commit: bool) -> None:
        self.told.append(f"end {commit}")

    def write(self, options: SinkOptions, *values: list[int], fails: bool = False) -> SinkMessage:
        def batches() -> Any:
            for each in values:
                yield pa.RecordBatch.from_pydict({"value": each})
            if fails:
                raise KeyboardInterrupt

        return write_rows(options, TOKEN, SinkColumns(("value",)), batches())


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Producing:
    return Producing(monkeypatch)


def test_a_task_says_that_it_has_written_once_all_is_acknowledged(task: Producing) -> None:
    message = task.write(sink(), [0, 1], [], [1])
    assert (message.writer, message.rows) == (ONE, 3)
    assert task.told == [
        "take True", "write as", "look", "add [0, 1]", "look", "send 0", "send 1", "flush", "close",
    ]  # fmt: skip


def test_a_partition_is_added_to_a_transaction_once(
    task: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_ROWS_MAX", 1)
    task.write(sink(), [0], [0], [1], [0, 1])
    assert [told for told in task.told if told.startswith("add")] == ["add [0]", "add [1]"]


OVER = {
    "the driver was fenced": OpenTransaction(DRIVER._replace(epoch=1), "Empty", 10_000, -1),
    "another run": OpenTransaction(DRIVER._replace(producer_id=9), "Empty", 10_000, -1),
    "the batch is decided": OpenTransaction(DRIVER, "CompleteCommit", 10_000, -1),
    "it is being decided": OpenTransaction(DRIVER, "Ongoing", 10_000, 5),
    "the decision was aborted": OpenTransaction(DRIVER, "CompleteAbort", 10_000, -1),
    "the id has expired": None,
}


@pytest.mark.parametrize("over", OVER)
def test_attempt_after_the_end_of_its_write_begins_no_transaction(
    task: Producing, over: str
) -> None:
    task.driver = OVER[over]
    with pytest.raises(SinkError, match="comes too late"):
        task.write(sink(), [0])
    assert not [told for told in task.told if told.startswith(("add", "send"))]


@pytest.mark.parametrize("over", OVER)
def test_attempt_that_begins_while_its_write_ends_aborts_itself(task: Producing, over: str) -> None:
    def end() -> None:
        task.driver = OVER[over]

    task.when_adding = end
    with pytest.raises(SinkError, match="comes too late"):
        task.write(sink(), [0])
    added = task.told.index("add [0]")
    assert task.told[added : added + 3] == ["add [0]", "look", "end False"]
    assert "send 0" not in task.told


def test_late_attempt_aborts_itself_with_all_retries(
    task: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries: list[float] = []
    task.retry_seconds = 120.0
    ended = task._end

    async def end(*arguments: Any, **named: Any) -> None:
        retries.append(task.retry_seconds)
        await ended(*arguments, **named)

    monkeypatch.setattr(task.transactions, "end", end)
    task.when_adding = lambda: setattr(task, "driver", None)
    with pytest.raises(SinkError, match="comes too late"):
        task.write(sink(), [0])
    assert retries[0] == 120.0


def test_a_task_that_is_interrupted_aborts_what_it_opened(
    task: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "_ROWS_MAX", 1)
    with pytest.raises(KeyboardInterrupt):
        task.write(sink(), [0], fails=True)
    assert task.told[-2:] == ["end False", "close"]


def test_who_may_not_use_two_phases_does_with_one_unless_two_were_asked_for(
    task: Producing,
) -> None:
    task.refused = [(True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]
    assert task.write(sink(), [0]).writer == ONE
    assert task.told[:2] == ["take True", "take False"]
    task.told.clear()
    with pytest.raises(SinkError):
        task.write(sink(twoPhaseCommit="true"), [0])
    assert task.told == ["take True", "close"]
    task.told.clear()
    task.refused = [(False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]
    with pytest.raises(SinkError):
        task.write(sink(twoPhaseCommit="false"), [0])
    assert task.told == ["take False", "close"]


@pytest.mark.parametrize(("rows_max", "sizes"), [(4, [4, 4, 2]), (3, [4, 4, 2]), (99, [10])])
def test_rows_are_gathered_anew_after_each_time_and_none_is_left(
    monkeypatch: pytest.MonkeyPatch, rows_max: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(sink_task, "_ROWS_MAX", rows_max)
    batch = pa.RecordBatch.from_pydict({"value": [1, 2], "other": [3, 4]})
    found = list(sink_task._gathered(iter([batch] * 5), SinkColumns(("value",))))
    assert [rows.num_rows for rows in found] == sizes
    monkeypatch.setattr(sink_task, "_BYTES_MAX", 2 * batch.select(["value"]).nbytes)
    monkeypatch.setattr(sink_task, "_ROWS_MAX", 99)
    found = list(sink_task._gathered(iter([batch] * 5), SinkColumns(("value",))))
    assert [rows.num_rows for rows in found] == [4, 4, 2]
    one = pa.RecordBatch.from_pydict({"value": [1]})
    assert [
        rows.num_rows for rows in sink_task._gathered(iter([one]), SinkColumns(("value",)))
    ] == [1]


def test_a_client_tries_for_as_long_as_a_delivery_may_take() -> None:
    options = sink(kafka__delivery__timeout__ms="9000", kafka__request__timeout__ms="4000")
    with client_of(replace(options)) as client:
        assert (client.retry_seconds, client.request_timeout_seconds) == (9.0, 4.0)


@pytest.mark.parametrize("error", [ClientError("away"), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)])
def test_task_that_fails_aborts_what_it_opened_without_waiting_for_brokers(
    task: Producing, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    task.retry_seconds = 120.0
    retries: list[float] = []

    async def fail() -> None:
        raise error

    async def end(*_: Any, **named: Any) -> None:
        retries.append(task.retry_seconds)
        raise ClientError("still away")

    monkeypatch.setattr(task, "flush", fail)
    monkeypatch.setattr(task.transactions, "end", end)
    with pytest.raises(SinkError, match=r"away|NOT_LEADER"):
        task.write(sink(), [0])
    assert retries == [0.0], "the driver sweeps, or the next run"


def test_timeout_that_the_brokers_do_not_allow_names_both_settings(task: Producing) -> None:
    task.refused = [(True, ErrorCode.INVALID_TRANSACTION_TIMEOUT)]
    with pytest.raises(
        SinkError, match=r"kafka.transaction.timeout.ms: 900000 is more than .* allows"
    ):
        task.write(sink(), [0])


def test_a_forked_worker_begins_to_count_under_a_name_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = sink_task._WorkerIds()
    first = [ids.take("p-", "w"), ids.take("p-", "w"), ids.take("p-", "v"), ids.take("q-", "v")]
    assert [name.rpartition("-")[2] for name in first] == ["1", "2", "1", "1"]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    forked = ids.take("p-", "v")
    assert forked.rpartition("-")[2] == "1"
    assert forked.rpartition("-")[0] != first[0].rpartition("-")[0]
