"""The view of a run on a terminal."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from headrace.pipeline.commands.live_view import LiveView

BEGAN = datetime.now(UTC) - timedelta(hours=1, minutes=2, seconds=3)


def at(seconds: float) -> str:
    """A time so many seconds ago."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def events() -> list[dict[str, Any]]:
    run = {"pipeline": "shop", "profile": "prod", "mode": "continuous", "pid": 7, "host": "db7"}
    checks = {
        "rows": 9,
        "dropped": 0,
        "failed": {"small": 41, "large": 0},
        "below": [],
        "examples": {},
    }
    return [
        {"at": at(3723), "event": "run", "run": "r1", **run},
        {"at": at(9), "event": "flow", "flow": "orders", "state": "started"},
        {
            "at": at(5),
            "event": "batch",
            "flow": "orders",
            "batch": 12,
            "records": 3000,
            "seconds": 0.5,
            "lag": 12034,
            "offsets": {},
            "late": 17,
            "refused": {"orders": 1200, "returns": 34},
            "watermark": "2026-11-28T10:31:00.000Z",
            "checks": checks,
            "unknown_keys": {"orders": {"zip": 1, "city": 2000, **dict.fromkeys("abcdef", 1)}},
        },
        {"at": at(9), "event": "flow", "flow": "alerts", "state": "started"},
        {
            "at": at(1),
            "event": "flow",
            "flow": "alerts",
            "state": "waiting",
            "text": "alerts: no answer",
            "retry_seconds": 4,
        },
        {"at": at(0), "event": "finding", "text": "[orders.py]:3: wrong"},
    ]


def test_flows_are_rows_with_their_lag_rate_and_checks() -> None:
    out = io.StringIO()
    console = Console(file=out, width=140, force_terminal=False)
    view = LiveView("shop", "prod", console)
    for event in events():
        view.take(event)
    assert out.getvalue() == "  [orders.py]:3: wrong\n", "names are not markup"
    out.truncate(0)
    out.seek(0)
    console.print(view.drawn())
    head, titles, alerts, orders, note, keys, last = out.getvalue().splitlines()
    assert head.startswith("shop prod  run r1  01:02:0")
    assert titles.split()[:4] == ["flow", "lag", "records", "records/s"]
    assert alerts.split()[:2] == ["alerts", "—"]
    assert alerts.rstrip().endswith("waiting: alerts: no answer")
    words = orders.split()
    assert words[:6] == ["orders", "12,034", "4,234", "6,000", "2026-11-28", "10:31:00"]
    assert words[6:8] == ["1,234", "17"], "refused, late"
    assert words[8:11] == ["1", "of", "2"], "one check without a failed row"
    assert words[11:] == ["12,", "5", "s", "ago", "started"]
    assert note.strip() == "! orders: check 'small': 41 rows failed"
    assert keys.strip() == (
        "! orders: keys without a column: city (2,000), zip (1), a (1), b (1), c (1) and 3 more"
    )
    assert last.strip() == "Ctrl-C: stop after this batch"


def test_the_end_of_a_stopped_run_is_printed() -> None:
    out = io.StringIO()
    view = LiveView("shop", "prod", Console(file=out, width=140, force_terminal=False))
    view.take({"at": at(0), "event": "end", "code": 130, "text": "stopped", "seconds": 4.5})
    assert out.getvalue() == "ended after 4.5 s: stopped\n"


def test_a_view_without_events_can_be_drawn() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True)
    with LiveView("shop", None, console):
        pass
    assert "shop  run …" in out.getvalue()
