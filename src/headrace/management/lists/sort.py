"""The order of a list: by a field of its rows (`sort=message_stats.ack`), then by name.

    objects --ordered--> runs of RUN, each sorted in one turn of the loop --> merged while read
       '--with_keys--> pairs of key and object, where a key needs the row --ordered--> ...

Values of several types are ordered as RabbitMQ orders Erlang's terms: numbers, null and booleans,
objects, arrays, strings. A row without the field counts as 0.
"""

import asyncio
import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
RUN = 1000
"""Objects that are filtered and sorted between two turns of the loop, 1 ms for names."""
ROWS_MAX = 50
"""Rows that are built between two turns of the loop."""
SortKey = tuple[int, Any]
_ATOMS = {False: "false", None: "null", True: "true"}


def is_reversed(query: Mapping[str, str]) -> bool:
    """Return whether a query asks for the reverse order."""
    return query.get("sort_reverse") == "true"


def field_of(row: object, path: str) -> object:
    """Return the field of a row that a path with dots names; 0 without one."""
    for name in filter(None, path.split(".")):
        row = row.get(name, 0) if isinstance(row, Mapping) else 0
    return row


def sort_key(value: object) -> SortKey:
    """Return a key that orders JSON values of any type."""
    match value:
        case bool() | None:
            return 1, _ATOMS[value]
        case int() | float():
            return 0, value
        case Mapping():
            return 2, (len(value), json.dumps(value, sort_keys=True))
        case list() | tuple():
            return 3, [sort_key(each) for each in value]
    return 4, str(value)


async def ordered(
    objects: Iterable[T], key: Callable[[T], Any], is_wanted: Callable[[T], bool], *, reverse: bool
) -> tuple[Iterator[T], int]:
    """Return the wanted objects in the order of their keys, and their number.

    Other connections have their turn after each run. The runs are merged while they are read, and
    `key` is called again for what is read: it costs less than a tuple of each key and object.
    """
    runs, run = list[list[T]](), list[T]()
    for number, each in enumerate(list(objects), 1):
        if is_wanted(each):
            run.append(each)
        if number % RUN == 0:
            run.sort(key=key, reverse=reverse)
            runs.append(run)
            run = []
            await asyncio.sleep(0)
    runs.append(sorted(run, key=key, reverse=reverse))
    return heapq.merge(*runs, key=key, reverse=reverse), sum(map(len, runs))


async def with_keys(
    objects: Iterable[T], key: Callable[[T], Any], is_wanted: Callable[[T], bool]
) -> list[tuple[Any, T]]:
    """Return the wanted objects with keys that take long to make: a few in each turn."""
    found = list[tuple[Any, T]]()
    for number, each in enumerate(list(objects), 1):
        if is_wanted(each):
            found.append((key(each), each))
        if number % ROWS_MAX == 0:
            await asyncio.sleep(0)
    return found


async def release(objects: list[Any]) -> None:
    """Empty a list with pauses: 100,000 keys are freed in 40 ms."""
    while objects:
        del objects[-RUN:]
        await asyncio.sleep(0)
