"""A list as a whole: filtered by name, sorted, one page or all rows, with the wanted columns.

Only the rows that are sent are built, and the keys of all rows where the list is sorted by a field.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.lists.names import name_filter
from headrace.management.lists.pages import page_of
from headrace.management.lists.sort import (
    ROWS_MAX,
    RUN,
    field_of,
    is_reversed,
    ordered,
    release,
    sort_key,
    with_keys,
)
from headrace.management.requests.request import ManagementReply

T = TypeVar("T")
Row = Mapping[str, object]


class Listed(NamedTuple):
    """How the objects of a list become its rows."""

    name: Callable[[Any], str]
    """Returns the name that a filter looks at."""
    default_order: Callable[[Any], Any]
    """Returns what the list is sorted by: usually vhost and name."""
    row: Callable[[Any], Row | None]
    """Returns the row; None: the object is deleted meanwhile."""


async def listed(objects: Collection[T], query: Mapping[str, str], how: Listed) -> ManagementReply:
    """Return the reply to a request for a list. Raises ManagementError.

    The filter counts for pages alone, as in RabbitMQ.
    """
    page = page_of(query)
    wanted = None if page is None else name_filter(query)
    keyed = list[Any]()

    def is_wanted(each: T) -> bool:
        return wanted is None or wanted(how.name(each))

    found, filtered = await _in_order(objects, is_wanted, query, how, keyed)
    if page is None:
        return ManagementReply(200, rows=_rows(found, how, query, keyed))
    try:
        page.check(filtered)
        await _skip(found, page.begin)
        items = [row async for row in _rows(islice(found, page.size), how, query)]
    finally:
        found = iter(())  # else its runs hold the keys
        await release(keyed)
    return ManagementReply(200, page.answer(items, filtered, len(objects)))


async def _in_order(
    objects: Collection[T],
    is_wanted: Callable[[T], bool],
    query: Mapping[str, str],
    how: Listed,
    keyed: list[Any],
) -> tuple[Iterator[T], int]:
    """Return the wanted objects in order, and their number; `keyed` gets those with a key."""
    reverse, path = is_reversed(query), query.get("sort", "")
    if not path:
        return await ordered(objects, how.default_order, is_wanted, reverse=reverse)

    def key(each: T) -> Any:  # noqa: ANN401 - values that are compared with each other
        return sort_key(field_of(how.row(each) or {}, path)), how.default_order(each)

    keyed += await with_keys(objects, key, is_wanted)
    found, count = await ordered(keyed, itemgetter(0), lambda _: True, reverse=reverse)
    return (each for _, each in found), count


async def _skip(found: Iterator[object], count: int) -> None:
    """Read what is before a page, with pauses."""
    for begin in range(0, count, RUN):
        for _ in islice(found, min(RUN, count - begin)):
            pass
        await asyncio.sleep(0)


async def _rows(
    found: Iterator[T], how: Listed, query: Mapping[str, str], keyed: list[Any] | None = None
) -> AsyncIterator[Row]:
    """Yield rows, then release `keyed`."""
    columns = columns_of(query)
    for number, each in enumerate(found, 1):
        row = how.row(each)
        if row is not None:
            yield of_object(row, columns)
        if number % ROWS_MAX == 0:
            await asyncio.sleep(0)
    await release(keyed or [])
