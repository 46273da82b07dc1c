"""Pages: which rows of a list a request asks for, and the numbers beside them.

page=N              the list is one page; without it, all rows
page_size=N         1 to `PAGE_SIZE_MAX`
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.management.requests.errors import ManagementError, bad_request

PAGE_SIZE_MAX = 500
PAGE_SIZE = 100
"""The size of a page whose request names none."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_INVALID, _OUT_OF_RANGE = "invalid_pagination_parameters", "page_out_of_range"


class Page(NamedTuple):
    """The page of a list that a request asks for."""

    number: int
    """1: the first."""
    size: int = PAGE_SIZE

    @property
    def begin(self) -> int:
        """Number of rows before the page."""
        return (self.number - 1) * self.size

    def check(self, count: int) -> None:
        """Raise ManagementError if a list of `count` rows ends before the page.

        A page directly behind the last row is empty, as in RabbitMQ.
        """
        if self.begin > count:
            reason = f"Page out of range, page: {self.number} page size: {self.size}, len: {count}"
            raise ManagementError(400, _OUT_OF_RANGE, reason)

    def answer(self, items: Sequence[object], filtered: int, total: int) -> dict[str, object]:
        """Return the JSON object of the page; `filtered` of `total` rows pass the filter."""
        return {
            "filtered_count": filtered,
            "item_count": len(items),
            "items": items,
            "page": self.number,
            "page_count": -(-filtered // self.size),
            "page_size": self.size,
            "total_count": total,
        }


def page_of(query: Mapping[str, str]) -> Page | None:
    """Return the page of a query; None: it asks for all rows. Raises ManagementError."""
    if "page" not in query:
        return None
    number, size = _integer(query["page"]), _integer(query.get("page_size", str(PAGE_SIZE)))
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        reason = f"Invalid pagination parameters: page number {number}, page size {size}"
        raise ManagementError(400, _INVALID, reason)
    return Page(number, size)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise bad_request("Pagination parameters are invalid")
    return int(text)
