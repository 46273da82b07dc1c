"""Lists of the management API: recorded pages, orders, filters and columns; turns of the loop."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from headrace.management.lists.listing import Listed, Row, listed
from headrace.management.lists.pages import Page
from headrace.management.lists.sort import ROWS_MAX, RUN, ordered, sort_key
from headrace.management.requests.errors import ManagementError
from headrace.wire.http_targets import query_fields
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.steps import Step, steps

T = TypeVar("T")
GOLDEN = load()
BY_NAME = Listed(
    name=lambda row: row["name"],
    default_order=lambda row: (row.get("vhost", ""), row["name"]),
    row=lambda row: row,
)
QUEUES, EXCHANGES, USERS = "/api/queues/gold", "/api/exchanges/gold", "/api/users"
LISTS = (QUEUES, EXCHANGES, USERS)


def asked(rows: Sequence[Row], query: str, how: Listed = BY_NAME) -> Any:
    """Return the JSON value of a list."""

    async def value() -> Any:
        reply = await listed(rows, query_fields(query), how)
        return reply.value if reply.rows is None else [row async for row in reply.rows]

    return asyncio.run(value())


def recorded_rows(path: str) -> list[Row]:
    """Return the rows of a list as RabbitMQ has them, in no order."""
    rows: list[Row]
    if path == QUEUES:
        rows = [row for row in GOLDEN["qs"]["body"] if row["vhost"] == "gold"]
    elif path == EXCHANGES:
        rows = [row for row in GOLDEN["xs.all"]["body"] if row["vhost"] == "gold"]
    else:
        rows = GOLDEN["users"]["body"]
    return random.Random(7).sample(rows, len(rows))


def recorded() -> list[Step]:
    """Return the recorded requests for parts of lists."""
    return [
        step
        for step in steps()
        if step.recorded
        and not step.by_role
        and (parts := urlsplit(step.path)).path.rstrip("/") in LISTS
        and any(word in parts.query for word in ("page", "sort", "name=", "columns"))
    ]


@pytest.mark.parametrize("step", recorded(), ids=lambda step: step.id)
def test_a_list_is_answered_as_recorded(step: Step) -> None:
    parts, golden = urlsplit(step.path), GOLDEN[step.id]
    rows = recorded_rows(parts.path.rstrip("/"))
    if golden["status"] == 200:
        assert asked(rows, parts.query) == golden["body"]
        return
    with pytest.raises(ManagementError) as refused:
        asked(rows, parts.query)
    assert (refused.value.status, refused.value.value) == (golden["status"], golden["body"])


def test_all_recorded_kinds_of_requests_are_compared() -> None:
    ids = {step.id for step in recorded()}
    assert {"qs.page3", "qs.page.high", "qs.page.word", "qs.sort", "qs.columns"} <= ids
    assert {"xs.page", "xs.regex", "users.page", "users.slash"} <= ids


ROWS: list[Row] = [
    {"name": "a", "count": 2, "stats": {"ack": 1}},
    {"name": "B", "count": 10, "stats": {"ack": 3}, "state": "down"},
    {"name": "c", "stats": {}, "state": None},
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("sort=count", "caB"),
        ("sort=stats.ack", "caB"),
        ("sort=stats.ack&sort_reverse=true", "Bac"),
        ("sort=state", "acB"),
        ("sort_reverse=true", "caB"),
        ("sort_reverse=yes", "Bac"),
        ("sort=name.first", "Bac"),
        ("page=1&name=A", "a"),
        ("page=1&name=.", ""),
        ("page=1&name=b&sort=count", "B"),
        ("page=1&name=%5E%5BA-B%5D%24&use_regex=true", "Ba"),
        ("page=1&name=%5Ba&use_regex=true", ""),
        ("page=1&name=%28%3F%3Da%29&use_regex=true", ""),
        ("page=1&name=%5E%5BA-B%5D%24&use_regex=false", ""),
        ("page=2&page_size=2&sort=count", "B"),
        ("page=%2B1", "Bac"),
    ],
)
def test_rows_are_filtered_and_sorted(query: str, names: str) -> None:
    found = asked(ROWS, query)
    items = found if isinstance(found, list) else found["items"]
    assert "".join(row["name"] for row in items) == names


@pytest.mark.parametrize("query", ["page=", "page=1.5", "page=1&page_size=x", "page=1_0", "page=²"])
def test_a_page_is_a_number(query: str) -> None:
    with pytest.raises(ManagementError, match="Pagination parameters are invalid"):
        asked(ROWS, query)


@pytest.mark.parametrize("query", ["page=-1", "page=1&page_size=0", "page=1&page_size=501"])
def test_a_page_is_within_bounds(query: str) -> None:
    with pytest.raises(ManagementError, match="Invalid pagination parameters"):
        asked(ROWS, query)


def test_a_page_behind_the_last_full_one_is_empty_and_the_next_is_refused() -> None:
    found = asked(ROWS, "page=2&page_size=3")
    assert (found["items"], found["page_count"], found["total_count"]) == ([], 1, 3)
    assert asked([], "page=1")["page_count"] == 0
    with pytest.raises(ManagementError, match="Page out of range, page: 3 page size: 3, len: 3"):
        asked(ROWS, "page=3&page_size=3")
    Page(4, 500).check(1500)
    with pytest.raises(ManagementError, match="page: 3 page size: 1, len: 1"):
        asked(ROWS, "page=3&page_size=1&name=a")


def test_values_of_all_types_have_an_order() -> None:
    values: list[object] = [-1, 0, 1.5, False, None, True, {}, {"a": 1}, [], [1], ["a"], "", "a"]
    mixed = random.Random(3).sample(values, len(values))
    assert sorted(mixed, key=sort_key) == values


def test_a_deleted_object_is_left_out() -> None:
    gone = BY_NAME._replace(row=lambda row: None if row["name"] == "a" else row)
    assert [row["name"] for row in asked(ROWS, "", gone)] == ["B", "c"]
    assert asked(ROWS, "page=1&sort=count", gone)["item_count"] == 2


def turns_of(coroutine: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """Return what a coroutine returns, and how often it lets other tasks run meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def play() -> T:
        counting = asyncio.ensure_future(count())
        await asyncio.sleep(0)
        try:
            return await coroutine
        finally:
            counting.cancel()

    return asyncio.run(play()), turns


@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_list_is_sorted_in_turns(reverse: bool) -> None:
    numbers = random.Random(1).sample(range(12_001), 12_001)
    wanted = sorted((it for it in numbers if it % 2 == 0), reverse=reverse)
    sorting = ordered(numbers, lambda it: it, lambda it: it % 2 == 0, reverse=reverse)
    (found, count), turns = turns_of(sorting)
    assert (list(found), count) == (wanted, len(wanted))
    assert turns >= 12


def test_a_list_sorted_by_a_field_gives_way_while_keys_are_made_and_freed() -> None:
    rows = [{"name": f"q{number}", "count": -number} for number in range(5000)]
    query = {"page": "2", "page_size": "2", "sort": "count", "name": "q"}
    reply, turns = turns_of(listed(rows, query, BY_NAME))
    page: Any = reply.value
    assert [row["name"] for row in page["items"]] == ["q4997", "q4996"]
    assert turns >= 5000 // ROWS_MAX + 2 * 5000 // RUN


def test_the_rows_before_a_page_are_read_in_turns() -> None:
    rows = [{"name": f"{number:05}"} for number in range(20_000)]
    first, late = (turns_of(listed(rows, {"page": number}, BY_NAME)) for number in ("1", "200"))
    page: Any = late[0].value
    assert page["items"][0] == {"name": "19900"}
    assert late[1] >= first[1] + 19


def test_only_the_rows_of_a_page_are_built() -> None:
    built: list[str] = []

    def row(each: Row) -> Row:
        built.append(str(each["name"]))
        return each

    rows = [{"name": f"q{number:04}"} for number in range(1000)]
    found = asked(rows, "page=3&page_size=10", BY_NAME._replace(row=row))
    assert (
        built == [each["name"] for each in found["items"]] == [f"q{it:04}" for it in range(20, 30)]
    )
    built.clear()
    asked(rows, "page=3&page_size=10&sort=nosuch", BY_NAME._replace(row=row))
    assert len(built) == 1010, "a key of each, and the page"
