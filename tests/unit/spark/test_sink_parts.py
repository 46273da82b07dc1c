"""The sink's driver and its log of decisions by themselves: what is swept, refused, bounded."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.calls.offsets import EARLIEST, OffsetAt
from headrace.client.producer.transactions import NO_TIMEOUT_MS, OpenTransaction, Writer
from headrace.client.transport.port import ClientError
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SinkError
from headrace.spark.sink import decisions
from headrace.spark.sink.decisions import Decision, DecisionLog, LastDecision
from headrace.spark.sink.sink_driver import LEFT_MS_MIN
from headrace.spark.sink.sink_task import SinkMessage
from headrace.spark.source import checkpoint
from headrace.spark.source.checkpoint import POSITIONS_CHARACTERS_MAX, PlannedBatch, planned
from tests.support.spark.sink_parts import DRIVER, NOW_MS, ONE, TOKEN, Cluster, decided, run

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
        (
            {},
            "its transactions may be committed .* look at the topic before you start the job again",
        ),
        (
            {"txnAppId": "p", "txnVersion": "5"},
            "start it again, and the batch is written exactly once",
        ),
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
