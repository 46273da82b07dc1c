"""docs/cli.md: it names every verb that is there, and none that is not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.cli.command_tree import app

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
NAMED = re.compile(r"`headrace ([a-z][a-z -]*)")


def verbs(of: Any = app, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of all verbs that are there."""
    for name in of:
        if name.startswith("-"):
            continue
        found = of[name]
        words = (*before, found.name[0])
        if found.default_command is None:
            yield from verbs(found, words)
        else:
            yield words


VERBS = set(verbs())
ROOMS = {words[:count] for words in VERBS for count in range(1, len(words))}


def named() -> set[tuple[str, ...]]:
    """The verbs and rooms (`headrace topic`) that the text names, without the flags behind them."""
    found = set()
    for match in NAMED.finditer(TEXT):
        words = tuple(match[1].split())
        count = 1
        while count < len(words) and words[:count] in ROOMS:
            count += 1
        found.add(words[:count])
    return found


def test_every_verb_that_is_there_is_named() -> None:
    assert VERBS - named() == set()


def test_every_verb_that_is_named_is_there() -> None:
    assert named() - VERBS - ROOMS == set()


def test_every_row_of_the_tables_says_what_is_ours_or_that_it_is_not_there() -> None:
    rows = [line.split("|")[1:-1] for line in TEXT.splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    for theirs, ours, differs in rows:
        if ours.strip() == "-":
            assert re.match("not (there|available|in this table)", differs.strip()), theirs
        else:
            assert ours.strip().startswith(("`headrace ", "`-X")), theirs
