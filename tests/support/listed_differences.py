"""Lists of explained differences: rows of patterns, each with its reason."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeVar

D = TypeVar("D")
R = TypeVar("R", bound="Row")
SOMETIMES = "if "
"""How the reason of a difference begins that does not always occur."""


class Row(Protocol):
    """A row of a list."""

    @property
    def reason(self) -> str:
        """Why the difference is accepted."""

    def matches(self, found: Any, /) -> bool:
        """Whether this row explains a difference."""


def fits(text: str, patterns: str) -> bool:
    """Whether a text matches one of the patterns, which " | " separates."""
    return any(fnmatchcase(text, pattern) for pattern in patterns.split(" | "))


def unexplained(found: Iterable[D], rows: Sequence[R]) -> tuple[list[D], list[R]]:
    """Return the differences that no row explains, and the rows that explain none."""
    used: set[int] = set()
    left = []
    for difference in found:
        matching = [number for number, row in enumerate(rows) if row.matches(difference)]
        used.update(matching)
        if not matching:
            left.append(difference)
    unused = (row for number, row in enumerate(rows) if number not in used)
    return left, [row for row in unused if not row.reason.startswith(SOMETIMES)]
