"""Outcomes of the cases of a group's start: `tests/golden/rocketmq-first-start.tsv`."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parents[2] / "golden" / "rocketmq-first-start.tsv"
RULES = ("5", "4.9", "new-queue", "off")
"""Values of `rocketmq.zero.offset.rule`."""
ORIGINALS = {"5": "5.5.0", "4.9": "4.9.7"}
"""The RocketMQ that a rule follows."""
COLUMNS = ("4.9.7", "5.5.0", *RULES)
"""Observed brokers: RocketMQ by its version, Headrace by its rule."""
NAMES = ("asked", "case", "there", "setting", *COLUMNS, "why")


class Case(NamedTuple):
    """A case as its program names it."""

    name: str
    there: str
    setting: str


class Row(NamedTuple):
    """A case, what happened in each column, and why Headrace differs from RocketMQ, if it does."""

    asked: str
    """The article's case that this one answers."""
    case: Case
    found: dict[str, str]
    """By column; a case that was not played there has none."""
    why: str

    @property
    def differs(self) -> set[str]:
        """The rules with which Headrace differs from their RocketMQ: `why` names them."""
        return {rule for rule in ORIGINALS if f"`{rule}`" in self.why}


def rows() -> list[Row]:
    """Return the rows of the table."""
    with TABLE.open(encoding="utf-8", newline="") as table:
        read = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Row(
                row["asked"],
                Case(row["case"], row["there"], row["setting"]),
                {name: row[name] for name in COLUMNS if row[name]},
                row["why"],
            )
            for row in read
        ]


def write(changed: Iterable[Row]) -> None:
    """Write the rows of the table."""
    with TABLE.open("w", encoding="utf-8") as table:
        table.write("\t".join(NAMES) + "\n")
        for row in changed:
            cells = [row.found.get(name, "") for name in COLUMNS]
            table.write("\t".join([row.asked, *row.case, *cells, row.why]) + "\n")


def observed(column: str) -> dict[Case, str]:
    """Return what happened in each case that was played for a column."""
    return {row.case: row.found[column] for row in rows() if column in row.found}


def of_original(rule: str) -> dict[Case, str]:
    """Return what happened on the RocketMQ that a rule follows, but for cases with a reason why
    Headrace differs, and for resets if the rule is not the default: they do not depend on it."""
    original = ORIGINALS[rule]
    return {
        row.case: row.found[original]
        for row in rows()
        if original in row.found and rule in row.found and rule not in row.differs
    }


def with_column(column: str, played: dict[Case, str]) -> list[Row]:
    """Return the table with what was played in a column; new cases are behind the others."""
    changed = []
    left = dict(played)
    for row in rows():
        found = row.found | ({column: left.pop(row.case)} if row.case in left else {})
        changed.append(row._replace(found=found))
    return changed + [Row("", case, {column: outcome}, "") for case, outcome in left.items()]


def row_of(line: str) -> tuple[Case, str] | None:
    """Return the case and the outcome of a program's line; None: another line.

    Names of brokers, counts of a load, times and the size of what was deleted are left out: they
    differ from run to run.
    """
    if not line.startswith("| "):
        return None
    cells = [each.strip() for each in line.strip().removesuffix("|").split(" | ")]
    if len(cells) != 5:
        return None
    _, name, there, setting, outcome = cells
    there, outcome = _left(there, outcome)
    if name == "1c-sent-while-starting" and not outcome.startswith("delivered 9/9"):
        outcome = "those skipped that came before the client asked"
    return Case(name, _stable(there), setting.replace("_OFFSET", "")), _stable(outcome)


def _stable(text: str) -> str:
    text = re.sub(r"\w+/(?:broker-a|headrace-0)(\d+)=", r"\1=", text)
    text = re.sub(r"sent \d+, \d+ of them to queues 3-5", "under load", text)
    text = re.sub(
        r"missed ([1-9]\d*) \(\1 in the new queues\), twice (\d+), first offsets .*",
        r"missed some, all in the new queues, twice \2",
        text,
    )
    text = re.sub(r"Group: G\w+ Topic: FS\w+ Timestamp: \d+", "Group: … Topic: …", text)
    text = re.sub(r"<G\w+>", "<…>", text).replace("first offsets {}", "nothing")
    return re.sub(r", first after \d+ ms", "", re.sub(r"within \d+ ms", "soon", text))


def _left(there: str, outcome: str) -> tuple[str, str]:
    """Return both without the minimum of a queue whose first messages were deleted."""
    found = re.fullmatch(r"1 queue, min (\d+), max (\d+)", there)
    if found is None:
        return there, outcome
    first, end = int(found[1]), int(found[2])
    if first == 0:
        return there, outcome.removesuffix(", min now 0")
    outcome = outcome.removesuffix(f", min now {first}")
    outcome = outcome.replace(f"old delivered {end - first},", "old delivered all that are left,")
    outcome = re.sub(rf"\{{\S+?0={first}\}}", "{0=min}", outcome)
    return f"1 queue, min > 0, max {end}", re.sub(rf"=({end - 1})\}}", "=max - 1}", outcome)
