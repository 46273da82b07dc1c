"""The state of a run from its events and its lock."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.run.lock import Holder, held
from headrace.pipeline.run.run_status import RunState, state_of
from headrace.pipeline.run.storage import Storage

AT = "2026-11-29T08:00:00.000Z"
BEGIN = {
    "event": "run",
    "run": "20261129-080000-aaaa",
    "pipeline": "shop",
    "profile": None,
    "mode": "continuous",
    "pid": 7,
    "host": "db7",
}
STARTED = {"event": "flow", "flow": "orders", "state": "started"}
WAITING = {
    "event": "flow",
    "flow": "orders",
    "state": "waiting",
    "text": "no answer",
    "retry_seconds": 1,
}


def batch(number: int, **more: Any) -> dict[str, Any]:
    return {
        "event": "batch",
        "flow": "orders",
        "batch": number,
        "records": 5,
        "seconds": 0.5,
        "lag": 9,
        "offsets": {},
        **more,
    }


def end(code: int, text: str) -> dict[str, Any]:
    return {"event": "end", "code": code, "text": text, "seconds": 1.0}


def write(storage: Storage, *events: dict[str, Any], run: str = str(BEGIN["run"])) -> None:
    storage.runs.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"at": AT, **event}) for event in events]
    (storage.runs / f"{run}.jsonl").write_text("\n".join(lines) + "\n")


def state(tmp_path: Path) -> RunState:
    return state_of("shop", None, Storage(tmp_path))


@pytest.mark.parametrize(
    ("events", "expected", "bad"),
    [
        ([BEGIN, STARTED, end(0, "all records are processed")], "ended", False),
        ([BEGIN, STARTED, end(0, "stopped by SIGTERM")], "stopped", False),
        ([BEGIN, STARTED, end(130, "stopped by SIGINT")], "stopped", False),
        ([BEGIN, end(130, "interrupted")], "stopped", False),
        ([BEGIN, STARTED, end(11, "check 'c' failed")], "failed", True),
        ([BEGIN, STARTED, batch(3)], "killed", True),
    ],
)
def test_a_run_that_holds_no_lock_has_ended(
    tmp_path: Path, events: list[dict[str, Any]], expected: str, bad: bool
) -> None:
    write(Storage(tmp_path), *events)
    found = state(tmp_path)
    assert (found.state, found.is_bad) == (expected, bad)


def test_a_pipeline_without_a_storage_was_never_run(tmp_path: Path) -> None:
    found = state(tmp_path / "none")
    assert (found.state, found.is_bad, found.run, found.lag) == ("never run", False, None, None)
    assert not (tmp_path / "none").exists()


def test_a_lock_counts_more_than_the_log(tmp_path: Path) -> None:
    """A full disk may have no event of the run that holds it, and that of an earlier one."""
    storage = Storage(tmp_path)
    write(storage, BEGIN, end(1, "failed"))
    with held(storage.lock, Holder("20261129-090000-bbbb", 9, "db8", "2026-11-29T09:00:00Z")):
        found = state(tmp_path)
    assert (found.state, found.run, found.pid, found.host, found.code) == (
        "running",
        "20261129-090000-bbbb",
        9,
        "db8",
        None,
    )
    assert found.started_at == "2026-11-29T09:00:00Z"


def test_the_newest_log_counts(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    write(storage, BEGIN, end(1, "failed"))
    write(storage, {**BEGIN, "run": "z"}, end(0, "done"), run="20261129-080000-aaab")
    assert state(tmp_path).state == "ended"


def test_flows_sum_what_their_batches_say(tmp_path: Path) -> None:
    checks = {"rows": 5, "dropped": 0, "failed": {"c": 2, "d": 0}, "below": [], "examples": {}}
    write(
        Storage(tmp_path),
        BEGIN,
        STARTED,
        batch(
            3,
            late=2,
            watermark="w1",
            checks=checks,
            refused={"t": 2, "u": 1},
            unknown_keys={"t": {"zip": 2}, "u": {"zip": 1, "city": 1}},
        ),
        WAITING,
        WAITING,
        STARTED,
        batch(4, lag=4, late=1, checks=checks, refused={"t": 4}, unknown_keys={"t": {"zip": 2}}),
        {**batch(1, lag=None), "flow": "other"},
    )
    found = state(tmp_path)
    flow = found.flows["orders"]
    assert flow.unknown_keys == {"zip": 5, "city": 1}
    assert (flow.batch, flow.records, flow.lag, flow.late, flow.restarts) == (4, 10, 4, 3, 1)
    assert (flow.state, flow.text, flow.watermark) == ("started", None, "w1")
    assert flow.refused == 7
    assert flow.read == 17, "those that their values refused are no rows, and were read"
    assert "read" not in found.to_json()["flows"][0]
    assert flow.failed_checks == {"c": 4, "d": 0}
    assert found.lag == 4
    assert found.flows["other"].lag is None


def test_a_waiting_flow_says_why(tmp_path: Path) -> None:
    write(Storage(tmp_path), BEGIN, STARTED, WAITING)
    flow = state(tmp_path).flows["orders"]
    assert (flow.state, flow.text, flow.restarts) == ("waiting", "no answer", 0)


def test_errors_in_a_row_are_counted_until_a_batch_is_finished(tmp_path: Path) -> None:
    """A started flow that has lost its worker six times is not well yet."""
    lost = {**WAITING, "text": "a worker was lost", "failures": 6, "failures_max": 20}
    write(Storage(tmp_path), BEGIN, STARTED, lost, STARTED)
    flow = state(tmp_path).flows["orders"]
    assert (flow.state, flow.failures, flow.failures_max) == ("started", 6, 20)
    write(Storage(tmp_path), BEGIN, STARTED, lost, STARTED, batch(3))
    flow = state(tmp_path).flows["orders"]
    assert (flow.failures, flow.failures_max) == (0, None)


def test_a_stale_check_is_shown_until_it_is_fresh_again(tmp_path: Path) -> None:
    def stale(check: str) -> dict[str, Any]:
        return {"event": "stale", "flow": "orders", "check": check, "newest": None, "since": AT}

    fresh = {"event": "fresh", "flow": "orders", "check": "fresh at"}
    write(Storage(tmp_path), BEGIN, STARTED, stale("fresh at"), stale("fresh paid"), fresh, fresh)
    assert state(tmp_path).flows["orders"].stale == {"fresh paid": AT}
