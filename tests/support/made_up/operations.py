"""The operations of the protocol."""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.operations.arguments import Arguments


class Lines(NamedTuple):
    """The lines that were said since the last one that was forgotten."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class ListLines(Arguments[Lines]):
    """List them."""

    OPERATION = "line.list"
    MUTATES = False


@dataclass(frozen=True)
class ForgetLine(Arguments[int]):
    """Forget a line; the result is how often it was said."""

    OPERATION = "line.forget"
    line: str
