"""`make demo` itself, as fast as it goes: everything accounted for, nothing left running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from examples.access_log import archive

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG"
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


def test_the_demo_accounts_for_every_line_and_leaves_nothing_running(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    demo = subprocess.Popen(
        [sys.executable, "-m", "examples.access_log.demo", "--speed", "max", "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said, _ = demo.communicate(timeout=290)
    assert demo.returncode == 0, said
    log = archive.load()
    rows = {table: pq.read_table(out / table).num_rows for table in ("requests", "quarantine")}
    assert rows == {"requests": len(log.lines) - log.damaged, "quarantine": log.damaged}
    windows = pq.read_table(out / "windows")
    assert sum(windows["requests"].to_pylist()) == rows["requests"]
    assert (out / "access_log.png").read_bytes().startswith(PNG)
    for name in ("windows", "requests", "quarantine", "access_log.png"):
        assert str(out / name) in said
    give_up = time.monotonic() + 20
    while (left := list(running(demo.pid, str(out)))) and time.monotonic() < give_up:
        time.sleep(0.2)
    assert left == []
