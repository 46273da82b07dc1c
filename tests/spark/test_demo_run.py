"""`make demo` itself, as fast as it goes: everything accounted for, nothing left running."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import headrace.arrow
from examples.access_log import archive

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"
NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SECONDS_MAX = 600
pytestmark = pytest.mark.slow


def running(session: int, mention: str) -> Iterator[str]:
    """Processes of a session, and those whose command line has `mention` in it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z" and (int(its_session) == session or mention in command):
            yield command


def demo(out: Path, *words: str) -> str:
    """Run the demo to its end, as `make demo` does; return what it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.access_log.demo", "--out", str(out), *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    said, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, said
    give_up = time.monotonic() + 20
    while (left := list(running(process.pid, str(out)))) and time.monotonic() < give_up:
        time.sleep(0.2)
    assert left == []
    return said


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, as readers other than Spark see them."""
    found: list[dict[str, Any]] = pq.read_table(out / "pipeline" / "data" / table).to_pylist()
    return found


def quarantined(out: Path, flow: str) -> list[dict[str, Any]]:
    """Return the records that a flow has refused, from the files of the demo's broker."""
    columns = ["value", "headers"]
    topic, log_dir = "access-log.quarantine", str(out / "broker" / "log")
    reader = headrace.arrow.open(log_dir, topic, columns=columns, isolation="read_committed")
    found: list[dict[str, Any]] = reader.read_all().to_pylist()
    own = {"key": "headrace.flow", "value": flow.encode()}
    return [row for row in found if own in row["headers"]]


def combined(second: int, *, seconds_late: int = 0) -> str:
    """A line in the combined format."""
    at = f"{NOON + timedelta(seconds=second - seconds_late):%d/%b/%Y:%H:%M:%S} +0000"
    request = f"GET /{second % 3} HTTP/1.1"
    return f'192.0.2.{second % 9} - - [{at}] "{request}" 200 9 "-" "-"'


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_the_demo_accounts_for_every_line_and_leaves_nothing_running(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    said = demo(out, "--speed", "max")
    log = archive.load()
    count = len(log.lines) - log.damaged
    places = {(row["_partition"], row["_offset"]) for row in rows(out, "requests")}
    assert (len(rows(out, "requests")), len(places)) == (count, count)
    refused = quarantined(out, "requests")
    assert len(refused) == log.damaged
    assert {row["value"] for row in refused} <= set(log.lines)
    assert {row["value"] for row in quarantined(out, "windows")} == {
        row["value"] for row in refused
    }
    windows = rows(out, "windows")
    assert sum(row["requests"] for row in windows) == count
    assert len({row["window_start"] for row in windows}) == len(windows)
    assert (out / "access_log.png").read_bytes().startswith(PNG)
    for name in ("pipeline/data/windows", "pipeline/data/requests", "access_log.png"):
        assert str(out / name) in said
    for title in ("One-minute windows", "Noisy clients", "Quarantine", "Consumer groups"):
        assert title in said
    assert re.search(r"access-log\.windows +[\d,]+ +0 *\n", said)
    assert re.search(r"requests +server errors are rare +258,876 +[\d,]+ *\n", said)


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_the_demo_reads_a_log_of_ones_own_with_damaged_and_late_lines(tmp_path: Path) -> None:
    lines = [combined(second) for second in range(600)]
    lines[100::50] = [line[:30] for line in lines[100::50]]
    lines.append(combined(600, seconds_late=590))
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    out = tmp_path / "demo"
    said = demo(out, "--log", str(path), "--format", "combined")
    damaged = len(range(100, 600, 50))
    assert len(rows(out, "requests")) == 601 - damaged
    assert len(quarantined(out, "requests")) == damaged
    assert re.search(rf"no local time +{damaged} *\n", said)
    windows = rows(out, "windows")
    late = 601 - damaged - sum(row["requests"] for row in windows)
    assert late in (0, 1)  # whether it is late depends on the batch that has it
    assert ("too late for their minute" in said) == bool(late)
    assert {row["p50_ms"] for row in windows} == {None}
