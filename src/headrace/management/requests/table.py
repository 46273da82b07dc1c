"""The table of requests: a row is a method and a path pattern, the tag it requires, its handler.

    method, path --find--> FoundRow       the handler is imported with its first request
                     |---> NotAllowed     the path has other methods: 405
                     '---> None           404, before the caller is asked for credentials

A path with a slash at its end is the same path. HEAD is GET without its body; OPTIONS names the
methods of a path and needs no row.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from typing import NamedTuple, cast

from headrace.management.requests.request import ManagementReply, ManagementRequest
from headrace.model.invariant import invariant
from headrace.operations.tags import Tag
from headrace.wire.http_targets import PathTable

Handler = Callable[[ManagementRequest], Awaitable[ManagementReply]]
_ORDER = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")
"""The methods in the order in which RabbitMQ names them."""


class Row(NamedTuple):
    """A request of the API."""

    method: str
    pattern: str
    """The path below `/api`: `/queues/{vhost}/{name}`."""
    tag: Tag
    handler: str
    """`module:function`, imported with the first request."""
    body_bytes_max: int = 0
    """Longest body in bytes; 0: the request has none."""


class FoundRow(NamedTuple):
    """The row of a request and the decoded values of its path."""

    row: Row
    values: Mapping[str, str]
    allow: str
    """All methods of the path, for the header `allow`."""


class NotAllowed(NamedTuple):
    """A path that exists, without the method that was asked for."""

    allow: str


class RequestTable:
    """The rows of the API by path and method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Make the table; a method of a pattern has one row."""
        self._paths = PathTable[dict[str, Row]]()
        by_pattern: dict[str, dict[str, Row]] = {}
        for row in rows:
            methods = by_pattern.setdefault(row.pattern, {})
            invariant(row.method not in methods, f"two rows of {row.method} {row.pattern}")
            methods[row.method] = row
        for pattern, methods in by_pattern.items():
            if "GET" in methods:
                methods["HEAD"] = methods["GET"]
            self._paths.add(pattern, methods)

    def find(self, method: str, path: str) -> FoundRow | NotAllowed | None:
        """Return the row of a request; NotAllowed for another method; None for an unknown path.

        `path` is percent-encoded, below `/api`. Raises ValueError if it is not UTF-8.
        """
        found = self._paths.find(path.removesuffix("/") or "/")
        if found is None:
            return None
        methods, values = found
        allow = ", ".join(name for name in _ORDER if name in methods or name == "OPTIONS")
        row = methods.get(method)
        return NotAllowed(allow) if row is None else FoundRow(row, values, allow)


def handler_of(row: Row) -> Handler:
    """Return the handler of a row; its module is imported now."""
    module, _, function = row.handler.partition(":")
    return cast("Handler", getattr(import_module(module), function))
