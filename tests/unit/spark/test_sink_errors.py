"""Errors amid what the sink's driver does: what is ended, aborted and said of the rest."""

from typing import Any

import pytest

from headrace.client.producer.transactions import OpenTransaction, Writer
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.spark.errors import SinkError
from headrace.spark.sink import sink_driver
from headrace.spark.sink.decisions import Decision, LastDecision
from headrace.spark.sink.sink_task import SinkMessage
from headrace.spark.source.checkpoint import PlannedBatch
from tests.support.spark.sink_parts import NOW_MS, ONE, TOKEN, Cluster, decided

TWO = Writer("p.sink.task-a-2", 3, 0)


def ends_fail(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, **errors: Exception) -> None:
    """Let the ends of these transactions fail, by the last part of their names."""
    ended = cluster._end

    async def end(client: Any, writer: Writer, *, commit: bool) -> None:
        error = errors.get("_" + writer.transactional_id.rpartition("-")[2])
        if error is not None:
            raise error
        await ended(client, writer, commit=commit)

    monkeypatch.setattr(cluster.transactions, "end", end)


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
    assert "transaction of p.sink.task-a-1, it will time out" in caplog.text


@pytest.mark.parametrize("error", [ClientError("away"), ApiError(ErrorCode.NOT_COORDINATOR)])
def test_brokers_that_are_away_when_a_write_is_aborted_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    cluster = Cluster(monkeypatch)

    async def away(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cluster.transactions, "describe", away)
    with pytest.raises(SinkError, match="pipeline p: "):
        cluster.driver.abort([SinkMessage(TOKEN, ONE, 1)], None)


def test_sweep_that_failed_is_repeated_by_the_next_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    listed = cluster.transactions.open_ids

    async def away(*_: Any) -> None:
        raise ClientError("away")

    monkeypatch.setattr(cluster.transactions, "open_ids", away)
    with pytest.raises(SinkError, match="pipeline p: away"):
        cluster.driver.begin()
    monkeypatch.setattr(cluster.transactions, "open_ids", listed)
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
