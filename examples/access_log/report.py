"""The demo's closing report: a row per minute, noisy clients, refused lines, the balance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from examples.access_log.pipeline_run import PipelineRun
    from examples.access_log.results import Results
    from examples.access_log.topic import Group
    from headrace.pipeline import Account

REASONS = 8
"""Number of reasons that have a row of their own."""
MINUTES = 60
"""Number of windows that are printed; the last ones."""
WIDE = 112  # cells from which there is room for everything


@dataclass(frozen=True)
class Findings:
    """All that is reported."""

    results: Results
    account: Account
    late: int
    """Lines that came too late for their window."""
    groups: Sequence[Group]
    run: PipelineRun


def show(console: Console, found: Findings, out: Path, picture: Path) -> None:
    """Print everything, the paths of what was written last."""
    windows = found.results.windows
    console.print()
    if windows:
        console.print(minutes_table(windows, wide=console.width >= WIDE))
        console.print(noisy_table(windows))
    console.print(refused_table(found.results.reasons))
    console.print(checks_table(found.run))
    console.print(groups_table(found.groups))
    console.print(account_table(found.account, found.late))
    console.print(further(out, picture), soft_wrap=True)


def minutes_table(windows: Sequence[dict[str, Any]], *, wide: bool) -> Table:
    """Return one row per window, with a bar for the traffic; noisy clients if it may be wide."""
    shown = windows[-MINUTES:]
    more = f", the last {MINUTES} of {len(windows):,}" if len(windows) > MINUTES else ""
    title = f"One-minute windows{more}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=0)
    table.add_column("minute", no_wrap=True)
    table.add_column("requests", justify="right", min_width=9)
    cells = 20 if wide else 10
    table.add_column("", min_width=cells + 1, no_wrap=True)
    for name in ("4xx", "5xx", "p50 ms", "p99 ms", "MB"):
        table.add_column(name, justify="right", min_width=7 if "p" in name else 6, no_wrap=True)
    table.add_column("  top paths", no_wrap=True, overflow="ellipsis")
    if wide:
        table.add_column("  noisy clients", no_wrap=True, overflow="ellipsis")
    most = max(row["requests"] for row in shown)
    days = {row["window_start"].date() for row in shown}
    for row in shown:
        paths = "  ".join(top["path"] for top in row["top_paths"][: 2 if wide else 1])
        noisy = ", ".join(f"{top['client']} ×{top['requests']:,}" for top in row["noisy_clients"])
        table.add_row(
            f"{row['window_start']:{'%H:%M' if len(days) == 1 else '%d %b %H:%M'}}",
            f"{row['requests']:,}",
            " [cyan]" + "█" * max(1, round(cells * row["requests"] / most)),
            _striking(row["client_errors"], row["requests"] * 0.05, "yellow"),
            _striking(row["server_errors"], row["requests"] * 0.03, "red"),
            *("—" if row[name] is None else f"{row[name]:,}" for name in ("p50_ms", "p99_ms")),
            f"{row['bytes'] / 1e6:,.0f}",
            f"  {paths}",
            *([f"  {noisy}"] if wide else []),
        )
    return table


def noisy_table(windows: Sequence[dict[str, Any]]) -> Table:
    """Return the clients that were noisy in any minute, the loudest first."""
    requests: Counter[str] = Counter()
    minutes: Counter[str] = Counter()
    for row in windows:
        for top in row["noisy_clients"]:
            requests[top["client"]] += top["requests"]
            minutes[top["client"]] += 1
    table = Table(title="Noisy clients", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("client")
    table.add_column("noisy minutes", justify="right")
    table.add_column("requests in them", justify="right")
    for client, count in requests.most_common(8):
        table.add_row(client, str(minutes[client]), f"{count:,}")
    return table


def refused_table(reasons: Sequence[tuple[str, int]]) -> Table:
    """Return the reasons of quarantined lines, by the field that could not be read."""
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


def checks_table(run: PipelineRun) -> Table:
    """Return how many rows failed each check of the pipeline."""
    table = Table(title="Checks", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("table")
    table.add_column("check")
    table.add_column("rows", justify="right")
    table.add_column("failed", justify="right")
    for name, flow in sorted(run.state.flows.items()):
        for check, failed in flow.failed_checks.items():
            table.add_row(name, check, f"{run.rows.get(name, 0):,}", f"{failed:,}")
    return table


def account_table(account: Account, late: int) -> Table:
    """Return the sums that must agree, as they were counted."""
    table = Table(title="Every line accounted for", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("counted")
    table.add_column("lines", justify="right")
    table.add_column("must be")
    table.add_row("fed by this demo", f"{account.fed:,}", "")
    table.add_row("records in the topic", f"{account.stored:,}", "fed")
    table.add_row("rows in requests/", f"{account.written:,}", "fed − quarantined")
    table.add_row("in the quarantine", f"{account.quarantined:,}", f"damaged: {account.damaged:,}")
    must_be = "rows in requests/"
    if late:
        table.add_row("too late for their minute", f"{late:,}", "")
        must_be += " − too late"
    table.add_row("sum over windows/", f"{account.windowed - late:,}", must_be)
    return table


def groups_table(groups: Sequence[Group]) -> Table:
    """Return the streaming queries as any Kafka tool sees them."""
    table = Table(title="Consumer groups", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("group")
    table.add_column("committed", justify="right")
    table.add_column("lag", justify="right")
    for group in groups:
        table.add_row(group.name, f"{group.committed:,}", f"{group.lag:,}")
    table.caption = "with a heartbeat in each partition, which closed the last windows"
    table.caption_justify = "left"
    return table


def further(out: Path, picture: Path) -> str:
    """Return where everything is, and what to try next."""
    out, picture = _near(out), _near(picture)
    project = f"{out}/pipeline"
    table = f"print(pandas.read_parquet('{project}/data/windows').iloc[:, :7])"
    listeners = "--listeners PLAINTEXT://127.0.0.1:9092"
    shown = f"[bold]Picture[/]  {picture}\n" if picture.exists() else ""
    return f"""[bold]Parquet[/]  {project}/data/windows
         {project}/data/requests
{shown}
[bold]Look further[/]
  one table    .venv/bin/python -c "import pandas; {table}"
  the pipeline {project}/transformations/access_log.py
               .venv/bin/headrace pipeline status {project}
  the topic    .venv/bin/headrace serve {out}/broker/server.properties {listeners}
               .venv/bin/headrace consume access-log --from-beginning -n 5
  bad lines    .venv/bin/headrace pipeline quarantine list access-log
               .venv/bin/headrace group describe access-log.windows
  on disk      .venv/bin/headrace log dump {out}/broker/log/access-log-0/*.timeindex
  your own log make demo LOG=/var/log/nginx/access.log FORMAT=combined
"""


def _near(path: Path) -> Path:
    """Return a path as seen from the working directory, if it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _striking(count: int, limit: float, colour: str) -> str:
    return f"[bold {colour}]{count:,}[/]" if count > limit else f"{count:,}"
