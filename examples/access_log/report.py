"""What the demo says at its end: a row per minute, who was noisy, what was refused, the balance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.pipeline import Account

BAR_CELLS = 18


def minutes_table(windows: Sequence[dict[str, Any]]) -> Table:
    """One row per window, with a bar for the traffic."""
    table = Table(title="One-minute windows", box=box.SIMPLE_HEAD, title_justify="left", padding=0)
    table.add_column("minute")
    table.add_column("requests", justify="right", min_width=9)
    table.add_column("", min_width=BAR_CELLS + 1, no_wrap=True)
    for name in ("4xx", "5xx", "p50 ms", "p99 ms", "MB"):
        table.add_column(name, justify="right", min_width=7)
    table.add_column("  top paths", no_wrap=True)
    table.add_column("  noisy clients", overflow="ellipsis", no_wrap=True)
    most = max(row["requests"] for row in windows)
    for row in windows:
        top = "  ".join(one["path"] for one in row["top_paths"][:2])
        noisy = ", ".join(f"{one['client']} ×{one['requests']:,}" for one in row["noisy_clients"])
        table.add_row(
            f"{row['window_start']:%H:%M}",
            f"{row['requests']:,}",
            " [cyan]" + "█" * max(1, round(BAR_CELLS * row["requests"] / most)),
            _striking(row["client_errors"], row["requests"] * 0.05, "yellow"),
            _striking(row["server_errors"], row["requests"] * 0.03, "red"),
            f"{row['p50_ms']:,}",
            f"{row['p99_ms']:,}",
            f"{row['bytes'] / 1e6:,.0f}",
            f"  {top}",
            f"  {noisy}",
        )
    return table


def noisy_table(windows: Sequence[dict[str, Any]]) -> Table:
    """The clients that were noisy in any minute, the loudest first."""
    requests: Counter[str] = Counter()
    minutes: Counter[str] = Counter()
    for row in windows:
        for one in row["noisy_clients"]:
            requests[one["client"]] += one["requests"]
            minutes[one["client"]] += 1
    table = Table(title="Noisy clients", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("client")
    table.add_column("noisy minutes", justify="right")
    table.add_column("requests in them", justify="right")
    for client, count in requests.most_common(8):
        table.add_row(client, str(minutes[client]), f"{count:,}")
    return table


def refused_table(reasons: Sequence[tuple[str, int]]) -> Table:
    """Why lines are in the quarantine, by the field that could not be read."""
    by_field: Counter[str] = Counter()
    for reason, count in reasons:
        by_field[reason.partition(" at byte")[0]] += count
    table = Table(title="Quarantine", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("reason")
    table.add_column("lines", justify="right")
    for reason, count in by_field.most_common(8):
        table.add_row(reason, f"{count:,}")
    return table


def account_table(account: Account) -> Table:
    """The sums that must agree, as they were counted."""
    table = Table(title="Every line accounted for", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("counted")
    table.add_column("lines", justify="right")
    table.add_column("must be")
    table.add_row("fed into the topic", f"{account.fed:,}", "")
    table.add_row("rows in requests/", f"{account.written:,}", "fed − quarantined")
    table.add_row(
        "rows in quarantine/", f"{account.quarantined:,}", f"damaged: {account.damaged:,}"
    )
    table.add_row("sum over windows/", f"{account.windowed:,}", "rows in requests/")
    return table


def _striking(count: int, limit: float, colour: str) -> str:
    return f"[bold {colour}]{count:,}[/]" if count > limit else f"{count:,}"
