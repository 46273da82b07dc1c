"""Tables and the picture at the demo's end, and the rows that they are made of."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from examples.access_log.picture import draw
from examples.access_log.report import (
    MINUTES,
    REASONS,
    account_table,
    minutes_table,
    refused_table,
)
from examples.access_log.results import read_back
from headrace.pipeline import Account

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def window(minute: int, **more: object) -> dict[str, Any]:
    values = {"redirects": 0, "client_errors": 1, "server_errors": 1, "bytes": 5, "clients": 1}
    return {
        "window_start": NOON + timedelta(minutes=minute),
        "requests": minute + 3,
        **values,
        "p50_ms": 3,
        "p99_ms": 9,
        "top_paths": [{"path": "/", "requests": 1}],
        "noisy_clients": [],
        **more,
    }


def printed(table: object) -> str:
    console = Console(width=160, record=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.mark.parametrize("fields", [0, 1, REASONS, REASONS + 1, 3 * REASONS])
def test_rows_of_the_quarantine_table_add_up(fields: int) -> None:
    reasons = [(f"no field {number} at byte {at}", number + 1) for number in range(fields)
               for at in (1, 2)]  # fmt: skip
    table = refused_table(reasons)
    shown = [int(str(cell).replace(",", "")) for cell in table.columns[1].cells]
    assert sum(shown) == sum(count for _, count in reasons)
    assert len(shown) <= REASONS + 1


def test_the_last_windows_of_a_long_log_are_printed_and_the_others_named() -> None:
    windows = [window(minute) for minute in range(MINUTES + 5)]
    table = minutes_table(windows, wide=True)
    assert table.row_count == MINUTES
    assert f"the last {MINUTES} of {MINUTES + 5}" in str(table.title)
    assert "12:05" in printed(table)
    assert "12:04" not in printed(table)


def test_windows_of_several_days_have_their_day() -> None:
    assert "21 Nov 12:00" in printed(minutes_table([window(0), window(24 * 60)], wide=True))


def test_windows_without_request_times_are_printed_and_drawn(tmp_path: Path) -> None:
    windows = [window(minute, p50_ms=None, p99_ms=None) for minute in range(3)]
    assert "—" in printed(minutes_table(windows, wide=False))
    draw(windows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_late_lines_have_a_row_of_the_balance() -> None:
    account = Account(fed=10, stored=10, damaged=1, written=9, quarantined=1, windowed=9)
    assert "too late" not in printed(account_table(account, 0))
    lines = printed(account_table(account, 2)).splitlines()
    assert any("too late for their minute" in line and " 2 " in line for line in lines)
    assert any("sum over windows/" in line and " 7 " in line for line in lines)


def test_tables_without_rows_are_read_as_such(tmp_path: Path) -> None:
    (tmp_path / "windows" / "_headrace").mkdir(parents=True)
    found = read_back(tmp_path, [])
    assert (found.windows, found.reasons, found.requests) == ([], [], 0)


def test_rows_of_partitions_are_read_and_staged_files_are_not(tmp_path: Path) -> None:
    for place in ("requests/day=2026-11-20", "requests/day=2026-11-21", "requests/_headrace"):
        (tmp_path / place).mkdir(parents=True)
        pq.write_table(pa.table({"status": [200, 404]}), tmp_path / place / "part.parquet")
    found = read_back(tmp_path, [("a", 2), ("b", 1)])
    assert (found.requests, found.quarantined) == (4, 3)
