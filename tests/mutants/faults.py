"""Faults as they are listed, drawn and known to be none, and the places they stand at.

`<room>.toml` lists faults by hand, `equivalent.toml` drawn ones that change nothing a test could
see. Neither knows a line number: a text must be found once, and an entry whose text is gone or
stands twice is an error.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LISTS = Path(__file__).parent
EQUIVALENT = "equivalent.toml"


class NoSuchPlace(Exception):
    """An entry's old text is not in its file, or more than once."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of a list: in `file`, `old` becomes `new`, and `test` must fail."""

    room: str
    file: str
    old: str
    new: str
    test: str
    broken: str = ""
    """What the fault breaks; where the test's name says it already, nothing."""

    def __str__(self) -> str:
        return f"{self.room}: {self.file}: {self.broken or self.test.partition('::')[2]}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A fault found in the syntax tree: lines `line`..`last_line` of `file`, old and new."""

    file: str
    function: str
    kind: str
    line: int
    last_line: int
    old: str
    new: str
    run: tuple[int, int]
    """First and last line of the statement: a test that runs one of them runs the fault."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it while lines move: file, function and both texts without their indent."""
        return self.file, self.function, _plain(self.old), _plain(self.new)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}"

    def diff(self) -> str:
        """The old lines and the new ones, marked like a diff."""
        lines = [f"-{line}" for line in self.old.splitlines()]
        return "\n".join(lines + [f"+{line}" for line in self.new.splitlines()])


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def changed(text: str, old: str, new: str, entry: object) -> str:
    """`text` with `old` replaced by `new`; NoSuchPlace, naming `entry`, unless it is there once."""
    count = text.count(old) if old else 0
    if count != 1:
        raise NoSuchPlace(f"{entry}: its old text is there {count} times, not once:\n{old}")
    return text.replace(old, new)


def with_drawn(text: str, fault: Drawn) -> str:
    """`text` with the lines of `fault` replaced."""
    lines = text.split("\n")
    lines[fault.line - 1 : fault.last_line] = [fault.new]
    return "\n".join(lines)


def listed(directory: Path = LISTS) -> list[Listed]:
    """Every entry of every room's list."""
    return [
        Listed(room=path.stem, **entry)
        for path in sorted(directory.glob("*.toml"))
        if path.name != EQUIVALENT
        for entry in _entries(path)
    ]


def equivalent(root: Path, directory: Path = LISTS) -> set[tuple[str, str, str, str]]:
    """Keys of drawn faults that are none; NoSuchPlace where one is no longer in its file."""
    keys = set()
    for entry in _entries(directory / EQUIVALENT):
        file, old = entry["file"], _plain(entry["old"])
        path = root / file
        if not path.exists() or old not in _plain(path.read_text()):
            raise NoSuchPlace(f"{EQUIVALENT}: {file}: {entry['function']}: no longer there:\n{old}")
        keys.add((file, entry["function"], old, _plain(entry["new"])))
    return keys


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    yield from tomllib.loads(path.read_text()).get("fault", ())
