"""The table of docs/rocketmq.md: what happened in each case, ours beside RocketMQ's."""

import re
from pathlib import Path

from tests.support.rocketmq.recorded_starts import COLUMNS, ORIGINALS, Row, rows

PAGE = Path(__file__).parents[4] / "docs" / "rocketmq.md"
BEGIN = "<!-- begin of the generated table: python -m tests.outside.rocketmq.first_start -->\n"
END = "<!-- end of the generated table -->\n"
_SHORTER = (
    (r"(, first offsets|, its first offsets)? ?\{[^}]*\}", ""),
    (r", min now 0|, nothing(?=,|$)", ""),
    (r"old delivered", "old"),
    (r"later sent delivered|(?<=, )new delivered", "new"),
    (r"missed 0 \(0 in the new queues\)", "missed 0"),
    (r" \((\d+) in the new queues\)", r" (\1 in the new)"),
    (r"(, delivered (?:again|on return) \d+) \(\d+ after T\)", r"\1"),
    (r"CODE: (\d+) +DESC: ", r"\1 "),
)
"""A pattern and what the page has instead: offsets of queues are in the recording alone."""


def table() -> str:
    """Return the tables in Markdown: starts of groups, then resets."""
    every = rows()
    starts = [row for row in every if "off" in row.found]
    moved = [row for row in every if "off" not in row.found]
    reset = [name for name in COLUMNS if any(name in row.found for row in moved)]
    return "\n".join([
        *_rows(starts, COLUMNS), "",
        "After an operator moved a group, or switched it off; the rule has no part in it:", "",
        *_rows(moved, reset),
        *_reasons(every),
    ])  # fmt: skip


def _rows(shown: list[Row], columns: "list[str] | tuple[str, ...]") -> list[str]:
    originals = ORIGINALS.values()
    names = [f"RocketMQ {name}" if name in originals else f"`{name}`" for name in columns]
    lines = [f"| case | setting | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    settings: dict[tuple[str, ...], list[str]] = {}
    for row in shown:
        shown_cells = (_title(row), *(_short(row.found.get(name, "")) for name in columns))
        settings.setdefault(shown_cells, []).append(row.case.setting)
    for (title, *cells), asked in settings.items():
        lines.append(f"| {title} | {'; '.join(asked)} | {' | '.join(cells)} |")
    return lines


def _title(row: Row) -> str:
    name = re.sub(r"^\d\w?-", "", row.case.name)
    if re.search(r"\w-\w+-", name):
        name = name.replace("-", " ")
    said = f"“{row.asked}”" if row.asked else name
    return f"{said} ({row.case.there})" if row.case.there else said


def _short(outcome: str) -> str:
    for pattern, instead in _SHORTER:
        outcome = re.sub(pattern, instead, outcome)
    return outcome.strip().replace("|", "\\|") or "–"


def _reasons(every: list[Row]) -> list[str]:
    reasons = dict.fromkeys(row.why for row in every if row.why)
    if not reasons:
        return []
    return [
        "",
        "Where `5` or `4.9` differs from its RocketMQ:",
        "",
        *(f"- {why}" for why in reasons),
    ]


def page() -> str:
    """Return the page with the present table."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n\n{END}{after}"
