"""`split_into_ranges`: consecutive numbers for each member, as the range assignor needs."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def split_into_ranges(count: int, among: Sequence[T]) -> Iterator[tuple[T, range]]:
    """Yield (member of `among`, its range): 0 to `count` - 1 divided into consecutive ranges.

    The first ranges are one longer if uneven. Members without a number are not yielded.
    """
    each, more = divmod(count, len(among))
    start = 0
    for place, who in enumerate(among):
        end = start + each + (place < more)
        if end == start:
            return
        yield who, range(start, end)
        start = end
