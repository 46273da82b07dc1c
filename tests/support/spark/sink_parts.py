"""A sink's options and writers for tests of its parts, and a loop that waits for nothing."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.producer.transactions import GONE, OpenTransaction, Writer
from headrace.model.errors import ApiError, ErrorCode
from headrace.spark.sink import sink_driver
from headrace.spark.sink.decisions import Decision, LastDecision
from headrace.spark.sink.sink_driver import SinkDriver
from headrace.spark.sink.sink_options import SinkOptions, parse_sink_options
from headrace.spark.sink.sink_task import RunToken

NOW_MS = 1_800_000_000_000
DRIVER, ONE = Writer("p.sink.driver", 1, 0), Writer("p.sink.task-a-1", 2, 0)
TOKEN = RunToken("w", DRIVER, "batch", 4)


def sink(**options: str) -> SinkOptions:
    """The options of a batch write, dots written as two underscores."""
    named = {"kafka.bootstrap.servers": "h:1", "pipeline": "p"}
    options = {name.replace("__", "."): value for name, value in options.items()}
    return parse_sink_options(named | options, streaming=False)


def run(work: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def decided(batch: int, *writers: Writer, digest: str = "") -> Decision:
    """A decision of a batch write."""
    return Decision("batch", batch, digest, "", [list(writer) for writer in writers])


class Cluster:
    """Coordinators of transactions, and a decision log. `transactions`, `DecisionLog`"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.open = [ONE.transactional_id]
        self.found = {
            ONE.transactional_id: OpenTransaction(ONE, "Ongoing", 900_000, NOW_MS),
            DRIVER.transactional_id: OpenTransaction(DRIVER, "Empty", 10_000, -1),
        }
        self.last_decision: LastDecision | None = None
        self.taken: list[str] = []
        self.refused: set[str] = set()
        self.fenced = 0
        self.ended: list[tuple[str, bool]] = []
        self.decisions: list[Decision] = []
        self.marked: list[int] = []
        transactions = SimpleNamespace(
            GONE=GONE, take_id=self._take_id, describe=self._describe, open_ids=self._open_ids,
            end=self._end,
        )  # fmt: skip
        self.transactions = transactions
        monkeypatch.setattr(sink_driver, "transactions", transactions)
        monkeypatch.setattr(sink_driver, "run", run)
        monkeypatch.setattr(sink_driver, "DecisionLog", lambda *_: self)
        monkeypatch.setattr(sink_driver, "time", SimpleNamespace(time=lambda: NOW_MS / 1000))
        monkeypatch.setattr(sink_driver, "_begun", set())
        self.driver = SinkDriver(sink(**options))

    async def _take_id(self, _: Any, transactional_id: str, timeout_ms: int) -> Writer:
        if transactional_id in self.refused:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transactional_id.endswith(".driver"):
            self.fenced += 1
        else:
            self.taken.append(transactional_id)
        return DRIVER

    async def _describe(self, _: Any, names: Iterable[str]) -> dict[str, OpenTransaction]:
        return {name: self.found[name] for name in names if name in self.found}

    async def _open_ids(self, _: Any, prefix: str) -> list[str]:
        return [name for name in self.open if name.startswith(prefix)]

    async def _end(self, _: Any, writer: Writer, *, commit: bool) -> None:
        self.ended.append((writer.transactional_id, commit))

    async def create(self) -> None:
        """It is there."""

    async def last(self) -> LastDecision | None:
        return self.last_decision

    async def decide(self, driver: Writer, decision: Decision, now_ms: int) -> None:
        self.decisions.append(decision)

    async def mark_ended(self, decision: Decision, now_ms: int) -> None:
        self.marked.append(decision.batch)

    def another(self, **options: str) -> SinkDriver:
        return SinkDriver(sink(**options))
