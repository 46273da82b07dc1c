"""Lists of the objects of virtual hosts, whose rows are made when they are sent; their bodies."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from headrace.management.lists.listing import Listed, Row, listed
from headrace.management.requests.errors import bad_request
from headrace.management.requests.request import ManagementReply, ManagementRequest
from headrace.management.requests.visible import sees
from headrace.operations.views import View

D = TypeVar("D")
DEFAULT_EXCHANGE_NAME = "amq.default"
"""The default exchange's name in paths; its own is empty."""
_NAME = itemgetter(1)


def itself(key: Any) -> Any:  # noqa: ANN401 - a key that is compared with others
    """Return the key: lists are sorted by it."""
    return key


async def listed_objects(
    request: ManagementRequest,
    view: View[Any, D],
    keys: Sequence[Any],
    row: Callable[[D], Row],
    order: Callable[[Any], Any] = itself,
) -> ManagementReply:
    """Return the reply to a request for a list of the objects with these keys.

    A key begins with the virtual host and the name. Raises ManagementError.
    """
    is_seen = sees(request)

    def row_of(key: Any) -> Row | None:  # noqa: ANN401 - a key of the view
        described = view.describe(key) if is_seen(key[0]) else None
        return None if described is None else row(described)

    return await listed(keys, request.query, Listed(_NAME, order, row_of))


def exchange_named(name: str) -> str:
    """Return an exchange's name from that in a path."""
    return "" if name == DEFAULT_EXCHANGE_NAME else name


def is_asked(query: Mapping[str, str], field: str) -> bool:
    """Return whether a field of a query is `true`."""
    return query.get(field) == "true"


def arguments_of(document: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the `arguments` of a JSON object. Raises ManagementError for null among them."""
    arguments = document.get("arguments", {})
    if arguments == []:
        return {}  # as clients in PHP encode an empty object
    if not isinstance(arguments, dict):
        raise bad_request("arguments are no JSON object")
    _check_no_null(arguments)
    return arguments


def text_of(document: Mapping[str, Any], key: str, otherwise: str) -> str:
    """Return a string of a JSON object. Raises ManagementError for a value of another type."""
    value = document.get(key, otherwise)
    if not isinstance(value, str):
        raise bad_request(f"{key} is no string")
    return value


def tags_of(value: object) -> tuple[str, ...]:
    """Return tags from a JSON list or from one text with commas. Raises ManagementError."""
    tags = value.split(",") if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_request("tags are no list of strings")
    return tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))


def _check_no_null(value: object) -> None:
    if value is None:
        raise bad_request("null_not_allowed")
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        _check_no_null(each)
