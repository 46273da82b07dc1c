"""The lists: faults that a named test must notice, and drawn ones that are known to be none.

An entry names a function and a fault in it as an operator calls it: no line, and no text of any
other function.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.draw import faults_of
from tests.mutants.faults import SOURCE, Drawn
from tests.mutants.operators import KINDS

LISTS = Path(__file__).parent
EQUIVALENT = "equivalent.toml"
WHYS = (
    "second at once",
    "error midway",
    "store away",
    "reset after recovery",
    "one for all",
)
"""Kinds of mistakes that tests easily miss."""


class NoSuchFault(Exception):
    """An entry names a function or a fault that its file does not have."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of a room's list: with `fault` in `symbol`, `test` must fail."""

    room: str
    symbol: str
    """A file below `src/headrace` and a function or class in it, as `log/log.py:Log.flushed`."""
    fault: str
    """Its operator and its label, as `dropped call: self.close`."""
    test: str
    why: str = ""
    """Of `WHYS`, the one it stands for, if any."""

    def __str__(self) -> str:
        return f"{self.room}: {self.symbol}: {self.fault}"

    @property
    def file(self) -> str:
        """The file of the source."""
        return SOURCE + self.symbol.partition(":")[0]


def found(root: Path, entry: Listed) -> Drawn:
    """The fault that `entry` names; NoSuchFault, with what is there instead, where it is not."""
    return _found(root, entry.symbol, entry.fault)


def _found(root: Path, symbol: str, name: str) -> Drawn:
    file, _, function = symbol.partition(":")
    path = root / SOURCE / file
    if not path.exists():
        raise NoSuchFault(f"{symbol}: there is no {SOURCE}{file}")
    kind, _, label = name.partition(": ")
    if kind not in KINDS:
        raise NoSuchFault(f"{symbol}: no operator is called {kind!r}; there are {', '.join(KINDS)}")
    here = faults_of(SOURCE + file, path.read_text(), {kind: KINDS[kind]}, function)
    for fault in here:
        if fault.label == label:
            return fault
    labels = "".join(f"\n  {fault.label}" for fault in here) or " none"
    raise NoSuchFault(f"{symbol}: there is no {kind} {label!r}; there is:{labels}")


def listed(directory: Path = LISTS) -> list[Listed]:
    """Every entry of every room's list."""
    return [
        Listed(room=path.stem, **entry)
        for path in sorted(directory.glob("*.toml"))
        if path.name != EQUIVALENT
        for entry in _entries(path)
    ]


def equivalent(root: Path, directory: Path = LISTS) -> set[tuple[str, str, str]]:
    """Keys of drawn faults that are none; NoSuchFault where one is no longer there."""
    entries = _entries(directory / EQUIVALENT)
    return {_found(root, entry["symbol"], entry["fault"]).key for entry in entries}


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    yield from tomllib.loads(path.read_text()).get("fault", ())
