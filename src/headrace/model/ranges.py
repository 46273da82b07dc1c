"""Numbers split into runs: what the range assignor is about, for brokers and clients alike."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def split_into_ranges(count: int, among: Sequence[T]) -> Iterator[tuple[T, range]]:
    """Split 0 to `count` - 1: neighbours together, the first of `among` one more than the rest.

    Those for whom nothing is left are not named.
    """
    each, more = divmod(count, len(among))
    start = 0
    for place, who in enumerate(among):
        end = start + each + (place < more)
        if end == start:
            return
        yield who, range(start, end)
        start = end
