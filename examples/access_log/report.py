"""What the demo says at its end: a row per minute, who was noisy, what was refused, the balance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from examples.access_log.results import Results
    from examples.access_log.topic import Group
    from headrace.pipeline import Account

REASONS = 8
"""Number of reasons that have a row of their own."""
WIDE = 112  # cells from which there is room for everything


def show(
    console: Console, results: Results, groups: Sequence[Group], out: Path, picture: Path
) -> None:
    """Print everything, the paths of what was written last."""
    console.print()
    console.print(minutes_table(results.windows, wide=console.width >= WIDE))
    console.print(noisy_table(results.windows))
    console.print(refused_table(results.reasons))
    console.print(groups_table(groups))
    console.print(account_table(results.account))
    console.print(further(out, picture), soft_wrap=True)


def minutes_table(windows: Sequence[dict[str, Any]], *, wide: bool) -> Table:
    """One row per window, with a bar for the traffic; noisy clients only where it may be wide."""
    table = Table(title="One-minute windows", box=box.SIMPLE_HEAD, title_justify="left", padding=0)
    table.add_column("minute", no_wrap=True)
    table.add_column("requests", justify="right", min_width=9)
    cells = 20 if wide else 10
    table.add_column("", min_width=cells + 1, no_wrap=True)
    for name in ("4xx", "5xx", "p50 ms", "p99 ms", "MB"):
        table.add_column(name, justify="right", min_width=7 if "p" in name else 6, no_wrap=True)
    table.add_column("  top paths", no_wrap=True, overflow="ellipsis")
    if wide:
        table.add_column("  noisy clients", no_wrap=True, overflow="ellipsis")
    most = max(row["requests"] for row in windows)
    for row in windows:
        paths = "  ".join(one["path"] for one in row["top_paths"][: 2 if wide else 1])
        noisy = ", ".join(f"{one['client']} ×{one['requests']:,}" for one in row["noisy_clients"])
        table.add_row(
            f"{row['window_start']:%H:%M}",
            f"{row['requests']:,}",
            " [cyan]" + "█" * max(1, round(cells * row["requests"] / most)),
            _striking(row["client_errors"], row["requests"] * 0.05, "yellow"),
            _striking(row["server_errors"], row["requests"] * 0.03, "red"),
            f"{row['p50_ms']:,}",
            f"{row['p99_ms']:,}",
            f"{row['bytes'] / 1e6:,.0f}",
            f"  {paths}",
            *([f"  {noisy}"] if wide else []),
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
    for reason, count in by_field.most_common(REASONS):
        table.add_row(reason, f"{count:,}")
    if rarer := by_field.most_common()[REASONS:]:
        table.add_row(f"{len(rarer)} rarer reasons", f"{sum(count for _, count in rarer):,}")
    return table


def account_table(account: Account) -> Table:
    """The sums that must agree, as they were counted."""
    table = Table(title="Every line accounted for", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("counted")
    table.add_column("lines", justify="right")
    table.add_column("must be")
    table.add_row("fed by this demo", f"{account.fed:,}", "")
    table.add_row("records in the topic", f"{account.stored:,}", "fed")
    table.add_row("rows in requests/", f"{account.written:,}", "fed − quarantined")
    table.add_row(
        "rows in quarantine/", f"{account.quarantined:,}", f"damaged: {account.damaged:,}"
    )
    table.add_row("sum over windows/", f"{account.windowed:,}", "rows in requests/")
    return table


def groups_table(groups: Sequence[Group]) -> Table:
    """The streaming queries as any Kafka tool sees them."""
    table = Table(title="Consumer groups", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("group")
    table.add_column("committed", justify="right")
    table.add_column("lag", justify="right")
    for group in groups:
        table.add_row(group.name, f"{group.committed:,}", f"{group.lag:,}")
    table.caption = "beside the lines: a heartbeat in each partition, which closed the last windows"
    table.caption_justify = "left"
    return table


def further(out: Path, picture: Path) -> str:
    """Where everything is, and what to try next."""
    out, picture = _near(out), _near(picture)
    table = f"print(pandas.read_parquet('{out}/windows').iloc[:, :7])"
    listeners = "--listeners PLAINTEXT://127.0.0.1:9092"
    return f"""[bold]Parquet[/]  {out}/windows
         {out}/requests
         {out}/quarantine
[bold]Picture[/]  {picture}

[bold]Look further[/]
  one table   .venv/bin/python -c "import pandas; {table}"
  the topic   .venv/bin/headrace serve {out}/broker/server.properties {listeners}
              .venv/bin/headrace consume access-log --from-beginning -n 5
              .venv/bin/headrace group describe access-log-windows
  on disk     .venv/bin/headrace log dump {out}/broker/log/access-log-0/*.timeindex
"""


def _near(path: Path) -> Path:
    """Relative to where the reader is, where that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _striking(count: int, limit: float, colour: str) -> str:
    return f"[bold {colour}]{count:,}[/]" if count > limit else f"{count:,}"
