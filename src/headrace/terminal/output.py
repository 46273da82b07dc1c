"""Printed results: tables on a terminal, columns in a pipe, JSON with --json."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from headrace.model.nouns import counted as counted

Cell = str | int | float | None


class _Form:
    """The form of notes and errors: text, or JSON if the result is JSON."""

    json = False


def speak_json(on: bool) -> None:
    """Print notes and errors as JSON from now on, or as text."""
    _Form.json = on


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    print(_compact(value))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def print_line(text: str) -> None:
    """Print one line of a result."""
    print(text)


def tell(text: str, value: object, *, json: bool) -> None:
    """Print the result of a change: `text`, or `value` as JSON."""
    if json:
        print_json(value)
    else:
        print_line(text)


def note(text: str) -> None:
    """Print a note that is not part of the result, to standard error."""
    print(_compact({"note": text}) if _Form.json else text, file=sys.stderr)


def note_error(text: str, as_json: Mapping[str, object] | None = None) -> None:
    """Print an error to standard error; with --json, `as_json` in its place."""
    if _Form.json and as_json is not None:
        print(_compact({"error": as_json}), file=sys.stderr)
        return
    for line in text.splitlines() or [""]:
        print(f"headrace: {line}", file=sys.stderr)


def print_list(
    found: Sequence[object],
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    none: str,
    json: bool,
) -> None:
    """Print what a command lists: `found` as JSON, a table of `rows`, or the remark `none`."""
    if json:
        print_json(found)
    elif not found:
        note(none)
    else:
        print_table(columns, [*rows])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table; columns of numbers are right-aligned."""
    if is_terminal():
        _print_rich(columns, rows)
    else:
        print_columns(columns, rows)


def _text(cell: Cell) -> str:
    return "-" if cell is None else str(cell)


def _numeric(rows: Sequence[Sequence[Cell]], at: int) -> bool:
    return any(isinstance(row[at], (int, float)) for row in rows)


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table as plain columns, also on a terminal: for rows that end with a long text."""
    texts = [list(columns)] + [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in texts) for at in range(len(columns))]
    for row in texts:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if _numeric(rows, at) else "left", no_wrap=True)
    for row in rows:
        # Text, not str: rich would take [brackets] in a name for markup.
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def shortened(text: str, characters_max: int) -> str:
    """Return a text of at most so many characters, or its beginning and an ellipsis."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"
