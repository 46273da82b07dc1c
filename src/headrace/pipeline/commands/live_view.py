"""The view of a run on a terminal: a table of its flows, drawn again each second."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.pipeline.commands.run_lines import lines_of_event
from headrace.pipeline.commands.unknown_keys import unknown_keys_text
from headrace.pipeline.run.run_status import FlowState, RunState, seconds_since

_COLUMNS = (
    "flow", "lag", "records", "records/s", "watermark", "refused", "late", "checks", "last batch",
    "",
)  # fmt: skip
_REFRESHES_PER_SECOND = 1


class LiveView:
    """Draws the state of a run that its events describe. Runs within a `with`."""

    def __init__(self, pipeline: str, profile: str | None, console: Console | None = None) -> None:
        self._state = RunState(pipeline, profile)
        self._live = Live(
            console=console,
            get_renderable=self.drawn,
            refresh_per_second=_REFRESHES_PER_SECOND,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the run into account."""
        self._state.take(event)
        if event["event"] in ("finding", "end"):
            for line in lines_of_event(event):
                self._live.console.print(Text(line))

    def drawn(self) -> Group:
        """Return the table as it is now."""
        state = self._state
        name = state.pipeline if state.profile is None else f"{state.pipeline} {state.profile}"
        head = f"{name}  run {state.run or '…'}  {_clock(seconds_since(state.started_at))}"
        table = Table(box=None, pad_edge=False)
        for column in _COLUMNS:
            right = column in ("lag", "records", "records/s", "refused", "late")
            table.add_column(column, justify="right" if right else "left", no_wrap=True)
        for flow, at in sorted(state.flows.items()):
            table.add_row(*(Text(cell) for cell in _row(flow, at)))
        notes = [
            Text(f"! {flow}: check {check!r}: {count:,} rows failed", style="yellow")
            for flow, at in sorted(state.flows.items())
            for check, count in at.failed_checks.items()
            if count
        ]
        notes += [
            Text(f"! {flow}: check {check!r}: stale since {since}", style="yellow")
            for flow, at in sorted(state.flows.items())
            for check, since in at.stale.items()
        ]
        notes += [
            Text(f"! {flow}: {unknown_keys_text(at.unknown_keys)}", style="yellow")
            for flow, at in sorted(state.flows.items())
            if at.unknown_keys
        ]
        return Group(Text(head), table, *notes, Text("Ctrl-C: stop after this batch", style="dim"))


def _row(name: str, flow: FlowState) -> tuple[str, ...]:
    rate = ""
    if flow.batch_seconds and flow.batch_records is not None:
        rate = f"{flow.batch_records / flow.batch_seconds:,.0f}"
    age = seconds_since(flow.last_batch_at)
    return (
        name,
        "—" if flow.lag is None else f"{flow.lag:,}",
        f"{flow.read:,}",
        rate,
        (flow.watermark or "—").replace("T", " ").partition(".")[0],
        f"{flow.refused:,}",
        f"{flow.late:,}",
        _checks(flow),
        "—" if age is None else f"{flow.batch}, {age:.0f} s ago",
        flow.state if flow.text is None else f"{flow.state}: {flow.text}",
    )


def _checks(flow: FlowState) -> str:
    """Return how many of the flow's checks no row has failed in this run."""
    counts = list(flow.failed_checks.values())
    return f"{counts.count(0)} of {len(counts)}" if counts else "—"


def _clock(seconds: float | None) -> str:
    whole = int(seconds or 0)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"
