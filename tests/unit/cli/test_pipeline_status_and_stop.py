"""`headrace pipeline status` and `stop`, on storages as runs leave them."""

import json
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.pipeline.run.event_log import EventLog
from headrace.pipeline.run.lock import Holder, held
from headrace.pipeline.run.stop_requests import StopRequests
from headrace.pipeline.run.storage import Storage
from tests.support.processes.cli_kit import SCHEMAS, check

TOML = """
name = "shop"
[profile.dev]
storage = "dev"
[profile.prod]
storage = "prod"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(TOML)
    return tmp_path


def ran(directory: Path, profile: str | None, code: int | None, run: str = "r1") -> Storage:
    """Leave the traces of a run; code None: it was killed."""
    storage = Storage(directory)
    storage.claim("shop", profile)
    log = EventLog(storage.runs / f"{run}.jsonl", lambda _: None)
    log.add("run", run=run, pipeline="shop", profile=profile, mode="once", pid=7, host="db7")
    log.add("flow", flow="orders", state="started")
    log.add(
        "batch",
        flow="orders",
        batch=3,
        records=1204,
        seconds=0.5,
        lag=12034,
        offsets={},
        late=2,
        refused={"orders": 5},
        unknown_keys={"orders": {f"k{number}": number + 1 for number in range(7)}},
    )
    if code is not None:
        log.add("end", code=code, text="orders: check failed" if code else "done", seconds=1)
    log.close()
    return storage


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_each_profile_that_has_run_is_shown(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shop / "dev", "dev", 0)
    ran(shop / "prod", "prod", 11)
    assert command(["pipeline", "status", str(shop)]) == 1, "one has failed"
    first, flow, second, _ = lines(capsys)
    assert first.startswith("shop dev  ended 00:00:0")
    assert first.endswith(" ago (exit 0): done  lag 12,034 at its last batch")
    assert flow.startswith("  orders  started, batch 3 00:00:0")
    assert flow.endswith(
        "1209 records in this run, 5 refused, 2 late, keys without a column: "
        "k6 (7), k5 (6), k4 (5), k3 (4), k2 (3) and 2 more"
    )
    assert second.startswith("shop prod  FAILED 00:00:0")
    assert "(exit 11): orders: check failed" in second
    assert command(["pipeline", "status", str(shop), "-p", "dev"]) == 0
    assert len(lines(capsys)) == 2


def test_a_killed_run_is_not_well(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dead query is never shown as green."""
    ran(shop / "data", None, None)
    assert command(["pipeline", "status", str(shop)]) == 1
    line = lines(capsys)[0]
    assert "KILLED" in line
    assert "headrace pipeline run goes on where it was" in line
    assert line.endswith("at its last batch") == ("lag" in line)


def test_a_flow_that_loses_its_worker_again_and_again_is_shown(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = ran(shop / "data", None, None)
    log = EventLog(storage.runs / "r1.jsonl", lambda _: None)
    lost = {"text": "a worker was lost", "retry_seconds": 4, "failures": 3, "failures_max": 20}
    log.add("flow", flow="orders", state="waiting", **lost)
    log.add("flow", flow="orders", state="started")
    log.close()
    command(["pipeline", "status", str(shop)])
    assert "1 restart, 3 errors without a finished batch (at 20 the run ends)" in lines(capsys)[1]


def test_a_pipeline_that_was_never_run_is_well(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["pipeline", "status", str(shop)]) == 0
    assert lines(capsys) == ["shop  never run"]
    assert command(["pipeline", "status", str(shop / "none")]) == 4


def test_json_of_status_is_as_its_schema_says(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = json.loads((SCHEMAS / "pipeline-status.json").read_text())
    assert command(["pipeline", "status", str(shop), "--json"]) == 0
    check(schema, json.loads(capsys.readouterr().out))
    ran(shop / "prod", "prod", 11)
    assert command(["pipeline", "status", str(shop), "--json"]) == 1
    (state,) = json.loads(capsys.readouterr().out)
    check(schema, [state])
    assert (state["state"], state["code"], state["flows"][0]["batch"]) == ("failed", 11, 3)


def test_a_run_of_this_machine_gets_sigterm_and_is_waited_for(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = ran(shop / "data", None, None)
    released = threading.Event()
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        released.set()

    def hold() -> None:
        with held(storage.lock, Holder("r1", os.getpid(), socket.gethostname(), "")):
            holding.set()
            released.wait(20)

    monkeypatch.setattr(os, "kill", kill)
    holding = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(20)
    assert command(["pipeline", "stop", str(shop)]) == 0
    thread.join()
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert not storage.stop_request.exists()
    assert lines(capsys) == ["shop: run r1 stopped after batches: orders 3"]


@pytest.mark.parametrize(
    "holder",
    [Holder("r1", os.getpid(), "another-machine", ""), Holder("r1", 1, socket.gethostname(), "")],
    ids=["another machine", "another process with that number"],
)
def test_a_run_elsewhere_finds_the_request_in_the_storage(
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    holder: Holder,
) -> None:
    storage = ran(shop / "data", None, None)
    stops = StopRequests(storage.stop_request, "r1")

    def kill(*_: Any) -> None:
        raise AssertionError("no process of this machine holds the lock by that number")

    def hold() -> None:
        with held(storage.lock, holder):
            holding.set()
            while stops.current() is None:
                pass

    monkeypatch.setattr(os, "kill", kill)
    holding = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(20)
    assert command(["pipeline", "stop", str(shop), "--json"]) == 0
    thread.join()
    found = json.loads(capsys.readouterr().out)
    check(json.loads((SCHEMAS / "pipeline-stop.json").read_text()), found)
    assert found == [{"pipeline": "shop", "profile": None, "run": "r1", "batches": {"orders": 3}}]


def test_a_stop_without_a_run_does_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shop / "data", None, 0)
    assert command(["pipeline", "stop", str(shop)]) == 0
    assert lines(capsys) == ["nothing runs"]


def test_a_stop_gives_up_after_its_timeout(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = ran(shop / "data", None, None)
    with held(storage.lock, Holder("r1", 1, "another-machine", "")):
        assert command(["pipeline", "stop", str(shop), "--timeout", "0.1"]) == 1
    assert "run r1 on another-machine (pid 1)" in capsys.readouterr().err
