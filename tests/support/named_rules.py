"""Rules of a design, each with the tests that hold it."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Rule(NamedTuple):
    """A rule in words, and its tests as `path::function`."""

    words: str
    tests: tuple[str, ...]


@cache
def _names_in(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = ast.parse(file.read_text()).body
    return frozenset(node.name for node in found if isinstance(node, ast.FunctionDef))


def missing(tests: tuple[str, ...]) -> list[str]:
    """Return the tests that do not exist."""
    split = (test.partition("::") for test in tests)
    return [f"{path}::{name}" for path, _, name in split if name not in _names_in(path)]
