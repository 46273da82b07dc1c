"""The sink's driver and its log of decisions by themselves: what is swept, refused, bounded."""

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.offsets import EARLIEST, OffsetAt
from headrace.client.transactions import GONE, NO_TIMEOUT_MS, OpenTransaction, Writer
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.spark import checkpoint, decisions, sink_driver
from headrace.spark.checkpoint import POSITIONS_CHARACTERS_MAX, PlannedBatch, planned
from headrace.spark.decisions import Decision, DecisionLog, LastDecision
from headrace.spark.errors import SinkError
from headrace.spark.sink_driver import LEFT_MS_MIN, SinkDriver
from headrace.spark.sink_task import SinkMessage
from tests.support.sink_parts import DRIVER, ONE, TOKEN, run, sink

NOW_MS = 1_800_000_000_000


def decided(batch: int, *writers: Writer, digest: str = "") -> Decision:
    return Decision("batch", batch, digest, "", [list(writer) for writer in writers])


# --- the log of decisions -------------------------------------------------------------------------


class Log:
    """A decision log of that many offsets; what is read of it is noted."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, size: int, records: dict[int, tuple[bytes, bytes]]
    ) -> None:
        self.size, self.records = size, records
        self.start = 0
        self.windows: list[int] = []
        self.isolations: list[bool] = []
        self.configs: dict[str, str] = {}
        monkeypatch.setattr(decisions, "list_offsets", self._list_offsets)
        monkeypatch.setattr(decisions, "create_topic", self._create_topic)
        monkeypatch.setattr(DecisionLog, "_read", self._read)
        client: Any = SimpleNamespace(leaders=self._leaders)
        self.log = DecisionLog(client, "p.sink.decisions")

    async def _leaders(self, topics: list[str]) -> None:
        """Nobody looks at it."""

    async def _list_offsets(
        self, _: Any, wanted: dict[TopicPartition, int], *, read_committed: bool = False, **__: Any
    ) -> dict[TopicPartition, OffsetAt]:
        ((place, which),) = wanted.items()
        if which != EARLIEST:
            self.isolations.append(read_committed)
        return {place: OffsetAt(self.start if which == EARLIEST else self.size, -1, -1)}

    async def _read(self, begin: int, end: int, known: Any) -> dict[bytes, bytes]:
        self.windows.append(begin)
        return {
            key: value for at, (key, value) in sorted(self.records.items()) if begin <= at < end
        }

    async def _create_topic(self, *_: Any, configs: dict[str, str], **__: Any) -> None:
        self.configs = configs


def record(decision: Decision) -> tuple[bytes, bytes]:
    fields = {name: getattr(decision, name) for name in Decision.__dataclass_fields__}
    return b"decided", json.dumps(fields).encode()


def test_the_last_decision_is_found_however_far_back_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, 300, {100: record(decided(3))})
    found = run(log.log.last())
    assert (found.decision.batch, found.ended) == (3, False)
    assert log.windows == [236, 172, 44]
    assert log.isolations == [True], "what is not committed is not decided"


@pytest.mark.parametrize(("size", "start"), [(0, 0), (64, 0), (65, 0), (500, 500), (500, 430)])
def test_a_log_without_a_decision_has_none(
    monkeypatch: pytest.MonkeyPatch, size: int, start: int
) -> None:
    log = Log(monkeypatch, size, {})
    log.start = start
    assert run(log.log.last()) is None
    assert min(log.windows) == start


def test_a_decision_is_ended_where_all_of_its_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = decided(3, digest="new")
    for name, ended in (("batch/3/new", True), ("batch/3/old", False), ("batch/2/new", False)):
        log = Log(monkeypatch, 2, {0: record(decision), 1: (b"ended", name.encode())})
        assert run(log.log.last()) == LastDecision(decision, ended)


def test_the_log_keeps_the_last_decision_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, 0, {})
    run(log.log._create())
    assert log.configs["cleanup.policy"] == "compact"


# --- the driver -----------------------------------------------------------------------------------


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


def test_what_runs_before_left_open_is_swept_once_by_each_sink_of_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.open.append("p.other.task-b-1")
    cluster.driver.begin()
    assert cluster.taken == [ONE.transactional_id]
    cluster.driver.begin()
    assert cluster.taken == [ONE.transactional_id]
    cluster.another(sink="other").begin()
    assert cluster.taken == [ONE.transactional_id, "p.other.task-b-1"]


def test_a_decision_that_was_not_ended_is_finished_and_swept_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.driver.begin()
    cluster.taken.clear()
    cluster.last_decision = LastDecision(decided(4, ONE), False)
    assert cluster.driver.begin().decided == 4
    assert cluster.ended == [(ONE.transactional_id, True)]
    assert (cluster.marked, cluster.taken) == ([4], [ONE.transactional_id])
    cluster.last_decision = LastDecision(decided(4, ONE), True)
    cluster.driver.begin()
    assert len(cluster.ended) == 1


def test_a_run_that_is_not_the_newest_sweeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    newer = DRIVER._replace(epoch=1)
    cluster.found[DRIVER.transactional_id] = OpenTransaction(newer, "Empty", 10_000, -1)
    cluster.driver._sweep(DRIVER)
    assert cluster.taken == []
    cluster.driver._sweep(newer)
    assert cluster.taken == [ONE.transactional_id]


def test_a_batch_is_decided_ended_and_swept_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    two = Writer("p.sink.task-a-2", 3, 0)
    cluster.open.append(two.transactional_id)  # of an attempt that gave no message
    cluster.driver.commit([SinkMessage(TOKEN, ONE, 5), SinkMessage(TOKEN, None, 0)], None)
    (decision,) = cluster.decisions
    assert (decision.batch, decision.writers) == (5, [ONE]), "the batch behind the last"
    assert cluster.ended == [(ONE.transactional_id, True)]
    assert cluster.taken == cluster.open


def test_a_job_of_a_number_that_was_decided_aborts_what_it_wrote_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for version, written in (("4", False), ("5", True)):
        cluster = Cluster(monkeypatch, txnAppId="p", txnVersion=version)
        cluster.last_decision = LastDecision(decided(4), True)
        cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)
        assert cluster.ended == [(ONE.transactional_id, written)]
        assert bool(cluster.decisions) is written


def test_job_whose_number_was_decided_sweeps_attempts_without_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, txnAppId="p", txnVersion="4")
    cluster.last_decision = LastDecision(decided(4), True)
    two = Writer("p.sink.task-a-2", 3, 0)
    cluster.open.append(two.transactional_id)
    cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)
    assert two.transactional_id in cluster.taken
    assert cluster.fenced == 1, "an attempt that begins later sees another driver"


def test_sweep_goes_on_behind_a_transaction_that_cannot_be_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    two = Writer("p.sink.task-a-2", 3, 0)
    cluster.open.append(two.transactional_id)
    cluster.refused = {ONE.transactional_id}
    cluster.driver.begin()
    assert cluster.taken == [two.transactional_id]


@pytest.mark.parametrize(
    "found",
    [
        None,
        OpenTransaction(ONE, "PrepareAbort", 900_000, NOW_MS),
        OpenTransaction(ONE, "Empty", 900_000, -1),
        OpenTransaction(ONE._replace(epoch=1), "Ongoing", 900_000, NOW_MS),
        OpenTransaction(ONE._replace(producer_id=9), "Ongoing", 900_000, NOW_MS),
    ],
)
def test_a_transaction_that_is_not_open_or_anothers_is_not_decided(
    monkeypatch: pytest.MonkeyPatch, found: OpenTransaction | None
) -> None:
    cluster = Cluster(monkeypatch)
    if found is None:
        del cluster.found[ONE.transactional_id]
    else:
        cluster.found[ONE.transactional_id] = found
    with pytest.raises(SinkError, match="is not open any more, so nothing is written"):
        cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)
    assert cluster.decisions == []


@pytest.mark.parametrize(
    ("timeout_ms", "age_ms", "enough"),
    [
        (900_000, 900_000 - LEFT_MS_MIN, True), (900_000, 900_001 - LEFT_MS_MIN, False),
        (40_000, 20_000, True), (40_000, 20_001, False), (NO_TIMEOUT_MS, 1 << 40, True),
    ],
)  # fmt: skip
def test_half_a_minute_is_left_of_a_transaction_that_is_decided_or_half_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch, timeout_ms: int, age_ms: int, enough: bool
) -> None:
    cluster = Cluster(monkeypatch)
    begun = OpenTransaction(ONE, "Ongoing", timeout_ms, NOW_MS - age_ms)
    cluster.found[ONE.transactional_id] = begun
    if enough:
        cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)
    else:
        with pytest.raises(SinkError, match="ms are left of the"):
            cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)
    assert bool(cluster.decisions) is enough


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, "it may have been decided, .* look at the topic before you start again"),
        ({"txnAppId": "p", "txnVersion": "5"}, "start again, and it is written once"),
    ],
)
def test_error_amid_a_decision_tells_whether_a_repetition_is_safe(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], remedy: str
) -> None:
    for method in ("decide", "mark_ended"):
        cluster = Cluster(monkeypatch, **options)

        async def fail(*_: Any) -> None:
            raise ClientError("the store is away")

        monkeypatch.setattr(cluster, method, fail)
        with pytest.raises(SinkError, match=f"the store is away; {remedy}"):
            cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)


@pytest.mark.parametrize("more", [0, 1])
def test_positions_are_kept_with_a_decision_up_to_a_length(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    positions = "x" * (POSITIONS_CHARACTERS_MAX + more)
    monkeypatch.setattr(checkpoint, "_read", lambda *_: f"v1\n{{}}\n{positions}".encode())
    found = planned("check", 0)
    assert isinstance(found, PlannedBatch)
    assert found.positions == ("" if more else positions)


# --- an error midway ------------------------------------------------------------------------------

TWO = Writer("p.sink.task-a-2", 3, 0)


def ends_fail(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, **errors: Exception) -> None:
    """Let the ends of these transactions fail, by the last part of their names."""
    ended = cluster._end

    async def end(client: Any, writer: Writer, *, commit: bool) -> None:
        error = errors.get("_" + writer.transactional_id.rpartition("-")[2])
        if error is not None:
            raise error
        await ended(client, writer, commit=commit)

    monkeypatch.setattr(sink_driver.transactions, "end", end)


def test_transaction_that_is_gone_keeps_no_other_of_its_batch_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    three = Writer("p.sink.task-a-3", 4, 0)
    for writer in (TWO, three):
        cluster.found[writer.transactional_id] = OpenTransaction(writer, "Ongoing", 900_000, NOW_MS)
    ends_fail(
        monkeypatch, cluster, _1=ApiError(ErrorCode.PRODUCER_FENCED),
        _3=ApiError(ErrorCode.INVALID_TXN_STATE),
    )  # fmt: skip
    messages = [SinkMessage(TOKEN, writer, 1) for writer in (ONE, TWO, three)]
    with pytest.raises(SinkError, match=r"2 of its 3 .*a-1 \(PRODUCER_FENCED\), .*a-3 \(INVALID"):
        cluster.driver.commit(messages, None)
    assert cluster.ended == [(TWO.transactional_id, True)]
    assert cluster.marked == [], "the batch is not said to be ended"


@pytest.mark.parametrize("error", [ClientError("away"), ApiError(ErrorCode.NOT_COORDINATOR)])
def test_repeated_job_aborts_all_that_it_can_of_what_it_wrote_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    cluster = Cluster(monkeypatch, txnAppId="p", txnVersion="4")
    cluster.last_decision = LastDecision(decided(4), True)
    ends_fail(monkeypatch, cluster, _1=error)
    cluster.driver.commit([SinkMessage(TOKEN, ONE, 1), SinkMessage(TOKEN, TWO, 1)], None)
    assert cluster.ended == [(TWO.transactional_id, False)]
    assert "p.sink.task-a-1 is left to its timeout" in caplog.text


@pytest.mark.parametrize("error", [ClientError("away"), ApiError(ErrorCode.NOT_COORDINATOR)])
def test_brokers_that_are_away_when_a_write_is_aborted_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    cluster = Cluster(monkeypatch)

    async def away(*_: Any) -> None:
        raise error

    monkeypatch.setattr(sink_driver.transactions, "describe", away)
    with pytest.raises(SinkError, match="pipeline p: "):
        cluster.driver.abort([SinkMessage(TOKEN, ONE, 1)], None)


def test_sweep_that_failed_is_repeated_by_the_next_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    listed = sink_driver.transactions.open_ids

    async def away(*_: Any) -> None:
        raise ClientError("away")

    monkeypatch.setattr(sink_driver.transactions, "open_ids", away)
    with pytest.raises(SinkError, match="pipeline p: away"):
        cluster.driver.begin()
    monkeypatch.setattr(sink_driver.transactions, "open_ids", listed)
    cluster.driver.begin()
    assert cluster.taken == [ONE.transactional_id]


@pytest.mark.parametrize(
    "state", ["PrepareCommit", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
)
def test_transaction_in_any_other_state_than_open_is_not_decided(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.found[ONE.transactional_id] = OpenTransaction(ONE, state, 900_000, NOW_MS)
    with pytest.raises(SinkError, match="is not open any more"):
        cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], None)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (None, "is behind what was written"), (decided(5), "is behind what was written"),
        (decided(4, digest="other"), "was written from other offsets"), (decided(4), None),
    ],
)  # fmt: skip
def test_repeated_batch_is_held_against_the_last_decision(
    monkeypatch: pytest.MonkeyPatch, last: Decision | None, error: str | None
) -> None:
    cluster = Cluster(monkeypatch)

    object.__setattr__(cluster.driver._options, "checkpoint", "/check")
    monkeypatch.setattr(sink_driver, "planned", lambda *_: PlannedBatch("", ""))
    cluster.last_decision = None if last is None else LastDecision(last, True)
    if error is None:
        cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], 4)
    else:
        with pytest.raises(SinkError, match=error):
            cluster.driver.commit([SinkMessage(TOKEN, ONE, 5)], 4)
    assert cluster.decisions == []
