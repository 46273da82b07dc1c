"""`headrace pipeline run`: output, clusters and exit codes, with a stand-in for the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.pipeline.commands.run_lines import lines_of_event
from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.run import runner
from headrace.pipeline.run.lock import HeldError
from headrace.pipeline.run.runner import RunRequest
from headrace.pipeline.run.supervisor import Ending, Mode
from tests.support.processes.cli_kit import SCHEMAS, check

EVENTS: list[dict[str, Any]] = [
    {
        "event": "run",
        "run": "r1",
        "pipeline": "shop",
        "profile": "prod",
        "mode": "once",
        "pid": 7,
        "host": "db7",
    },
    {"event": "finding", "text": "orders.py:3: t: no flow writes to it"},
    {"event": "flow", "flow": "orders", "state": "started"},
    {
        "event": "flow",
        "flow": "orders",
        "state": "waiting",
        "text": "orders: no answer",
        "retry_seconds": 2.0,
        "failures": 2,
        "failures_max": None,
    },
    {
        "event": "flow",
        "flow": "orders",
        "state": "waiting",
        "text": "orders: a worker was lost",
        "retry_seconds": 4.0,
        "failures": 3,
        "failures_max": 20,
    },
    {"event": "flow", "flow": "orders", "state": "interrupted", "text": "its batch hangs"},
    {"event": "flow", "flow": "orders", "state": "failed", "text": "orders: no", "code": 1},
    {"event": "flow", "flow": "orders", "state": "done"},
    {
        "event": "batch",
        "flow": "orders",
        "batch": 3,
        "records": 1204,
        "seconds": 0.41,
        "lag": 12034,
        "offsets": {"orders-0": 9},
        "watermark": "2026-11-28T10:31:00.000Z",
        "late": 17,
        "refused": {"orders": 1200, "returns": 34},
        "unknown_keys": {"orders": {"zip": 3}},
        "state_rows": 5,
        "events_lost": 2,
        "checks": {
            "rows": 9,
            "dropped": 2,
            "quarantined": 1234,
            "failed": {"large": 2, "small": 3, "other": 0},
            "below": ["small"],
            "examples": {"large": ["orders-0@5"]},
        },
    },
    {
        "event": "batch",
        "flow": "a",
        "batch": 0,
        "records": 1,
        "seconds": 1,
        "lag": None,
        "offsets": {},
    },
    {"event": "end", "code": 0, "text": "all records are processed", "seconds": 4.5},
]
LINES = """\
shop: run r1 with profile prod
  orders.py:3: t: no flow writes to it
  orders: started
  orders: no answer; next attempt in 2 s
  orders: a worker was lost; next attempt in 4 s (error 3 of 20 in a row)
  orders: its batch hangs; the next start repeats it
  orders: batch 3: 1204 records in 0.4 s, 1,234 refused, lag 12,034, 17 late
  ! orders: check 'large': 2 of 9 rows failed, first orders-0@5
  ! orders: check 'small': 3 of 9 rows failed; fewer pass than the check requires
  a: batch 0: 1 record in 1.0 s
ended after 4.5 s: all records are processed
"""
Played = Callable[[Ending | Exception], list[RunRequest]]


@pytest.fixture
def shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HEADRACE_COMMAND_CONFIG", raising=False)
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n[profile.prod]\ncluster = "big"\n')
    (tmp_path / "client").write_text("security.protocol=SSL\nbootstrap.servers=file:1\n")
    assert command(["profile", "create", "used", "-b", "used:9092"]) == 0
    assert command(["profile", "create", "big", "-b", "big:9092"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Replaces the run by one that shows EVENTS and ends in this way; returns its requests."""

    def play(ends: Ending | Exception) -> list[RunRequest]:
        requests: list[RunRequest] = []

        def run_pipeline(request: RunRequest) -> Ending:
            requests.append(request)
            for event in EVENTS:
                request.show({"at": "2026-11-28T10:31:00.000Z", **event})
            if isinstance(ends, Exception):
                raise ends
            return ends

        monkeypatch.setattr(runner, "run_pipeline", run_pipeline)
        return requests

    return play


def test_events_are_lines(shop: Path, played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    requests = played(Ending(0, "all records are processed"))
    assert command(["pipeline", "run", str(shop), "--once"]) == 0
    assert capsys.readouterr().out == LINES
    assert requests[0].mode is Mode.ONCE
    assert requests[0].project.profile is None
    assert requests[0].accept_loss == frozenset()


@pytest.mark.parametrize(("code", "expected"), [(0, 2), (130, 2), (1, 0)])
def test_a_run_that_ends_well_names_the_directory_of_each_table(
    shop: Path, played: Played, capsys: pytest.CaptureFixture[str], code: int, expected: int
) -> None:
    played(Ending(code, "all records are processed"))
    storage = shop / "data"
    for name, version, directory in (
        ("orders", 0, "orders"), ("refunds", 1, "refunds@1"), ("sent_on", 0, ""),
    ):  # fmt: skip
        (storage / "_checkpoints" / name / "flow" / str(version)).mkdir(parents=True)
        (storage / directory).mkdir(exist_ok=True)
    assert command(["pipeline", "run", str(shop), "--once"]) == code
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  table")]
    tables = [f"  table orders: {storage}/orders", f"  table refunds: {storage}/refunds@1"]
    assert shown == tables[:expected]
    assert command(["pipeline", "run", str(shop), "--once", "--json"]) == code
    assert "  table" not in capsys.readouterr().out


def test_flows_whose_loss_is_accepted_reach_the_run(
    shop: Path, played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = played(Ending(0, "all records are processed"))
    arguments = ["--accept-loss", "orders", "--accept-loss", "refunds"]
    assert command(["pipeline", "run", str(shop), "--once", *arguments]) == 0
    assert requests[0].accept_loss == {"orders", "refunds"}
    assert command(["pipeline", "run", str(shop), "--dry", *arguments]) == 2
    assert "leave --accept-loss out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"records": 3}, "3 records in 1.0 s, lag 0"),
        ({"records": 0, "refused": {"t": 1}}, "1 record in 1.0 s, 1 refused, lag 0"),
        ({"records": 3, "refused": {"t": 2}, "checks": 2}, "3 records in 1.0 s, 2 refused, lag 0"),
        (
            {"records": 2938, "refused": {"t": 770}, "checks": 708},
            "3000 records in 1.0 s, 770 refused (62 by their values, 708 by checks), lag 0",
        ),
        (
            {"records": 3, "lag": None, "offsets": {"t-0": 3}},
            "3 records in 1.0 s, lag unknown: planned by an earlier start",
        ),
    ],
)
def test_records_of_a_batch_are_rows_and_refused_ones(counts: dict[str, Any], words: str) -> None:
    quarantined = counts.pop("checks", None)
    event = {"event": "batch", "flow": "f", "batch": 2, "seconds": 1, "lag": 0, "offsets": {}}
    if quarantined is not None:
        event["checks"] = {"failed": {}, "quarantined": quarantined}
    assert list(lines_of_event({**event, **counts})) == [f"  f: batch 2: {words}"]


@pytest.mark.parametrize(
    ("code", "lines"),
    [(0, ["ended after 4.5 s: why"]), (130, ["ended after 4.5 s: why"]), (1, []), (11, [])],
)
def test_a_stopped_run_has_a_last_line_and_a_failed_one_its_error(
    code: int, lines: list[str]
) -> None:
    event = {"event": "end", "code": code, "text": "why", "seconds": 4.5}
    assert list(lines_of_event(event)) == lines


def test_json_has_each_event(
    shop: Path, played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    played(Ending(0, ""))
    assert command(["pipeline", "run", str(shop), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in found] == [event["event"] for event in EVENTS]
    schema = json.loads((SCHEMAS / "pipeline-run.json").read_text())
    for event in found:
        check(schema, event)


@pytest.mark.parametrize(
    ("ends", "code", "kind"),
    [
        (Ending(1, "orders: no"), 1, "FAILED"),
        (Ending(2, "orders: no"), 2, "USAGE"),
        (Ending(3, "orders: no"), 3, "UNREACHABLE"),
        (Ending(4, "orders: no"), 4, "NOT_FOUND"),
        (Ending(11, "orders: no"), 11, "CHECK_FAILED"),
        (Ending(12, "orders: no"), 12, "DATA_LOST"),
        (HeldError("orders: no"), 13, "HELD"),
        (DeclarationError("orders: no"), 2, "USAGE"),
    ],
)
def test_an_end_has_its_code_and_one_line(
    shop: Path,
    played: Played,
    capsys: pytest.CaptureFixture[str],
    ends: Ending | Exception,
    code: int,
    kind: str,
) -> None:
    played(ends)
    assert command(["pipeline", "run", str(shop)]) == code
    assert capsys.readouterr().err == "headrace: orders: no\n"
    assert command(["pipeline", "run", str(shop), "--json"]) == code
    error = json.loads(capsys.readouterr().err)["error"]
    assert error == {"code": kind, "message": "orders: no", "exit_code": code}


def test_an_interrupted_run_prints_no_error(
    shop: Path, played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    played(Ending(130, "stopped by SIGINT"))
    assert command(["pipeline", "run", str(shop)]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "mode"),
    [([], Mode.CONTINUOUS), (["--once"], Mode.ONCE), (["--until-idle"], Mode.UNTIL_IDLE)],
)
def test_flags_choose_when_a_run_ends(
    shop: Path, played: Played, words: list[str], mode: Mode
) -> None:
    requests = played(Ending(0, ""))
    assert command(["pipeline", "run", str(shop), *words]) == 0
    assert [request.mode for request in requests] == [mode]


def test_two_ends_cannot_be_combined(shop: Path, played: Played) -> None:
    requests = played(Ending(0, ""))
    assert command(["pipeline", "run", str(shop), "--once", "--until-idle"]) == 2
    assert requests == []


@pytest.mark.parametrize(
    ("words", "environment", "bootstrap"),
    [
        ([], {}, "used:9092"),
        (["-p", "prod"], {}, "big:9092"),
        (["-p", "prod"], {"HEADRACE_BOOTSTRAP": "shell:1"}, "big:9092"),
        (["-p", "prod", "-b", "other:1"], {}, "other:1"),
        (["-b", "other:1"], {}, "other:1"),
        (["--profile", "big"], {}, "big:9092"),
        (["--command-config", "{shop}/client"], {}, "file:1"),
        ([], {"HEADRACE_BOOTSTRAP": "shell:1"}, "shell:1"),
    ],
)
def test_the_projects_cluster_is_used_unless_another_is_named(
    shop: Path,
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environment: dict[str, str],
    bootstrap: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    requests = played(Ending(0, ""))
    assert command(["pipeline", "run", str(shop), *(word.format(shop=shop) for word in words)]) == 0
    assert [request.bootstrap for request in requests] == [bootstrap]
    if "--command-config" in words:
        assert requests[0].settings["security.protocol"] == "SSL"
        assert "SSL" not in repr(requests[0])
