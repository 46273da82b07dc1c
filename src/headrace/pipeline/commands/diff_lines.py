"""The comparison of a replay with its table as lines of text."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.terminal.output import shortened

if TYPE_CHECKING:
    from headrace.pipeline.diffs.table_diff import ColumnDiff, TableDiff
    from headrace.pipeline.replays.replay import Replay

UNDO = timedelta(days=7)
"""Time for which Delta keeps the files that were replaced."""
VALUE_CHARACTERS_MAX = 40
"""Characters of a value that are shown."""


def diff_lines(replay: "Replay", diff: "TableDiff") -> Iterator[str]:
    """Yield the lines of a comparison: rows, then columns, those with changes first."""
    by = f"by {', '.join(diff.key)}" if diff.key else "as rows without a key"
    yield (
        f"{replay.table}@{replay.id} against {replay.table} (version {replay.version}, "
        f"{replay.days}), {by}"
    )
    for each in diff.types:
        before, after = each.before or "missing", each.after or "missing"
        yield f"  {each.name}: {before} → {after}, not compared"
    width = max((len(column.name) for column in diff.columns), default=0)
    width = max(width, len("rows"))
    parts = [f"{diff.added:,} added", f"{diff.gone:,} gone"]
    if diff.key:
        parts.append(f"{diff.changed:,} changed")
    parts.append(f"{diff.same:,} the same")
    yield f"  {'rows':{width}}  {diff.rows_before:,} → {diff.rows_after:,}   {', '.join(parts)}"
    compared = diff.same + diff.changed
    for column in sorted(diff.columns, key=lambda column: not column.changed):
        yield f"  {column.name:{width}}  {_changes(column, compared, replay, diff)}".rstrip()
    for name, examples in (("added", diff.added_examples), ("gone", diff.gone_examples)):
        if examples:
            shown = "; ".join(_key_text(replay, diff, key) for key in examples)
            yield f"  {name}: e.g. {shown}"


def _changes(column: "ColumnDiff", compared: int, replay: "Replay", diff: "TableDiff") -> str:
    if not column.changed:
        return "0 changed"
    text = f"{column.changed:,} changed ({_share(column.changed, compared)})"
    if column.delta_max is not None:
        text += f"   max |Δ| {column.delta_max:.6g}"
    for example in column.examples[:1]:
        key = _key_text(replay, diff, example.key)
        text += f"   e.g. {key}  {_value(example.before)} → {_value(example.after)}"
    return text


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2g} %" if part < whole else "100 %"


def _key_text(replay: "Replay", diff: "TableDiff", key: tuple[str | None, ...]) -> str:
    if diff.key == ("_partition", "_offset"):
        topic = f"{next(iter(replay.offsets))}-" if len(replay.offsets) == 1 else ""
        return f"{topic}{key[0]}@{key[1]}"
    return ", ".join(f"{name}={_value(text)}" for name, text in zip(diff.key, key, strict=True))


def _value(text: str | None) -> str:
    return "null" if text is None else shortened(text, VALUE_CHARACTERS_MAX)


def decision_line(replay: "Replay", given: str) -> str:
    """Return what may be done with a compared replay. `given`: words that name the project."""
    return (
        f"nothing is visible yet: headrace pipeline replay {replay.flow}{given} "
        f"--apply {replay.id} | --discard {replay.id}"
    )


def done_line(replay: "Replay", now: datetime, given: str) -> str:
    """Return what a step of a replay has done. `given`: words that name the project."""
    days = replay.days
    match replay.state.value:
        case "applied":
            until = datetime.fromtimestamp((replay.applied_ms or 0) / 1000, UTC) + UNDO
            undo = (
                f"; undo: headrace pipeline replay {replay.flow}{given} --undo {replay.id} "
                f"(until {until:%Y-%m-%d})"
                if now < until
                else ""
            )
            return (
                f"{replay.table}: {days} is {replay.id}'s as of version {replay.applied_version}; "
                f"rows of later batches stay{undo}"
            )
        case "undone":
            return f"{replay.table}: {days} is as before {replay.id}; rows of later batches stay"
    return f"{replay.table}: {replay.id} is {replay.state.value}; the table is unchanged"
