"""Targets of HTTP requests: path patterns and queries."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.http_targets import QUERY_FIELDS_MAX, PathTable, query_fields

PATTERNS = (
    "/",
    "/queues",
    "/queues/detailed",
    "/queues/{vhost}",
    "/queues/{vhost}/{name}",
    "/queues/{vhost}/{name}/bindings",
    "/queues/quorum/{vhost}/{name}/status",
)


def table() -> PathTable[str]:
    """Return a table whose entries are their patterns."""
    made = PathTable[str]()
    for pattern in PATTERNS:
        made.add(pattern, pattern)
    return made


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", ("/", {})),
        ("/queues", ("/queues", {})),
        ("/queues/detailed", ("/queues/detailed", {})),
        ("/queues/%2F", ("/queues/{vhost}", {"vhost": "/"})),
        ("/queues/%2f/a%2Fb", ("/queues/{vhost}/{name}", {"vhost": "/", "name": "a/b"})),
        ("/queues/detailed/q", ("/queues/{vhost}/{name}", {"vhost": "detailed", "name": "q"})),
        ("/queues/quorum/q", ("/queues/{vhost}/{name}", {"vhost": "quorum", "name": "q"})),
        ("/queues/quorum/q/bindings",
         ("/queues/{vhost}/{name}/bindings", {"vhost": "quorum", "name": "q"})),
        ("/queues/quorum/v/q/status",
         ("/queues/quorum/{vhost}/{name}/status", {"vhost": "v", "name": "q"})),
        ("/queues/a+b/%c3%a9", ("/queues/{vhost}/{name}", {"vhost": "a+b", "name": "é"})),
        ("", None),
        ("/queue", None),
        ("/queues/", None),
        ("/queues//q", None),
        ("/queues/v/q/", None),
        ("/queues/v/q/more", None),
        ("/queues/quorum/v/q/other", None),
        ("/%71ueues", None),
    ],
)  # fmt: skip
def test_a_path_has_the_entry_of_its_most_literal_pattern(path: str, found: object) -> None:
    assert table().find(path) == found


def test_a_value_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        table().find("/queues/%ff")


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2))
def test_any_text_is_a_value(values: list[str]) -> None:
    vhost, name = (value.encode("utf-8", "replace").decode() for value in values)
    path = f"/queues/{quote(vhost, safe='')}/{quote(name, safe='')}/bindings"
    found = table().find(path)
    assert found == ("/queues/{vhost}/{name}/bindings", {"vhost": vhost, "name": name})


def test_the_first_of_equal_query_fields_counts() -> None:
    assert query_fields("a=1&b=x%20y+z&a=2&c=&d") == {"a": "1", "b": "x y z", "c": "", "d": ""}
    assert query_fields("") == {}


@pytest.mark.parametrize("query", ["a=%ff", "&".join(["a=1"] * (QUERY_FIELDS_MAX + 1))])
def test_a_hostile_query_is_refused(query: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - two functions of the library name it
        query_fields(query)
