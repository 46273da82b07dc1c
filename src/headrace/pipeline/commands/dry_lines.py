"""The outcome of a dry run as text."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.model.nouns import counted
from headrace.pipeline.commands.diff_lines import VALUE_CHARACTERS_MAX
from headrace.pipeline.commands.unknown_keys import unknown_keys_text
from headrace.terminal.output import print_columns, print_line, shortened

if TYPE_CHECKING:
    from headrace.pipeline.dry.dry_run import DryFlow, DryResult


def print_dry(result: "DryResult") -> None:
    """Print the outcome of a dry run: each flow with its first rows, then what was refused."""
    profile = "" if result.profile is None else f" with profile {result.profile}"
    print_line(f"{result.pipeline}: dry run{profile}: nothing is written")
    for topic, count in result.topics.items():
        print_line(f"  reads {counted(count, 'record')} of {topic}")
    for flow in result.flows:
        for line in _of_flow(flow):
            print_line(line)
        if shown := flow.shown:
            columns = list(shown[0])
            print_columns(
                [f"  {name}" if not at else name for at, name in enumerate(columns)],
                [_cells(row, columns) for row in shown],
            )
    for each in result.refused:
        records = counted(each.records, "record")
        print_line(f"! {each.topic}: {records} refused: {each.reason}, first {each.example}")
    for topic, count in result.crowded.items():
        print_line(
            f"! {topic}: {count:,} of {counted(result.topics[topic], 'record')} refused: a run ends"
            " with exit code 11 if more than half of a topic's last 1,000 records are"
        )


def _of_flow(flow: "DryFlow") -> Iterator[str]:
    if flow.outcome is None:
        yield f"{flow.name} → {flow.target}: failed"
        return
    late = f", {flow.outcome.late:,} late" if flow.outcome.late else ""
    yield f"{flow.name} → {flow.target}: {counted(len(flow.outcome.rows), 'row')}{late}"
    for name, count in flow.outcome.failed.items():
        yield f"  check {name!r}: {count:,} failed"
    if flow.outcome.unknown_keys:
        yield f"  {unknown_keys_text(flow.outcome.unknown_keys)}"


def _cells(row: dict[str, Any], columns: list[str]) -> list[str]:
    cells = [_cell(row[name]) for name in columns]
    return [f"  {cells[0]}", *cells[1:]]


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(text.replace("\n", "⏎"), VALUE_CHARACTERS_MAX)
