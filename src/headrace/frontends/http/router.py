"""The table of paths: handlers of requests, and the types of requests and replies."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from headrace.security.identity import Identity
from headrace.wire.http_targets import PathTable

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
REASONS = {
    200: "OK",
    201: "Created",
    204: "No Content",
    301: "Moved Permanently",
    303: "See Other",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
"""The reason phrase of every status that is sent."""


class BodyRefused(Exception):
    """A request body that is not accepted; unless the handler catches it, it is the reply."""

    def __init__(self, status: int, reason: str) -> None:
        """Name the HTTP status, a key of `REASONS`, and the reason in one line."""
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class Body(Protocol):
    """The body of a request."""

    async def read(self) -> bytes | bytearray:
        """Return the whole body, once it is received; b"" without one.

        Raises BodyRefused: too long, too slow, malformed, or too many bodies at a time.
        """


class _NoBody:
    async def read(self) -> bytes:
        return b""


NO_BODY = _NoBody()


class HttpRequest(NamedTuple):
    """An HTTP request, whose body is received when the handler reads it."""

    method: str
    path: str
    """The path without the query."""
    identity: Identity
    query: str = ""
    """The part after `?`; `wire.http_targets.query_fields` decodes it."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Names in lower case, and values, in the order of the request."""
    values: Mapping[str, str] = MappingProxyType({})
    """The decoded values of the route's path pattern."""
    body: Body = NO_BODY
    pattern: str = ""
    """The route's path pattern, for logs: a path may have a password."""
    kept: dict[str, Any] | None = None
    """The handlers' own objects, until the connection ends; None: they are not kept."""

    def header(self, name: bytes) -> str:
        """Return the value of a header by its name in lower case; equal names are joined by `,`."""
        return ", ".join(value.decode("latin-1") for key, value in self.headers if key == name)


class Pieces(Protocol):
    """A body that is made while the client reads it: an asynchronous generator."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the iterator of the pieces, which need not be of any size."""

    def __anext__(self) -> Awaitable[bytes]:
        """Return the next piece."""

    async def aclose(self) -> None:
        """Stop: the reply is sent, or the client has left."""


class HttpReply(NamedTuple):
    """A reply; `Content-Length` and `Connection` are added by the session."""

    status: int
    """The HTTP status, a key of `REASONS`."""
    body: bytes | Pieces
    content_type: str = TEXT
    """Empty: the reply has no such header."""
    headers: tuple[tuple[str, str], ...] = ()
    compresses: bool = False
    """Whether the body may be compressed for clients that accept gzip."""


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


class HttpRoute(NamedTuple):
    """A method of a path, and its handler. HEAD is served by the handler of GET."""

    method: str
    path: str
    """The path, or a pattern: `/queues/{vhost}/{name}`."""
    handler: Handler
    body_bytes_max: int = 0
    """Longest body in bytes; 0: a request with a body is refused."""


class Found(NamedTuple):
    """The route of a request, and the values of its path."""

    route: HttpRoute
    values: Mapping[str, str]


class Router(Protocol):
    """Finds the routes of requests."""

    def find(self, method: str, path: str, /) -> Found | HttpReply:
        """Return the route of a request, or a reply instead."""


class HttpRouter:
    """The handlers of HTTP requests, by path and method. Implements `Router`."""

    def __init__(self, routes: Iterable[HttpRoute], *, answers_options: bool = False) -> None:
        """Make the table of `routes`.

        `answers_options`: whether OPTIONS returns a path's methods; else it is a method as others.
        """
        self._answers_options = answers_options
        self._paths = PathTable[dict[str, HttpRoute]]()
        by_path: dict[str, dict[str, HttpRoute]] = {}
        for route in routes:
            methods = by_path.setdefault(route.path, {})
            methods[route.method] = route
            if route.method == "GET":
                methods["HEAD"] = route
        for path, methods in by_path.items():
            self._paths.add(path, methods)

    def find(self, method: str, path: str) -> Found | HttpReply:
        """Return the route of a request, or a reply instead: 400, 404, 405, the methods."""
        try:
            found = self._paths.find(path)
        except ValueError:
            return text(400, "the path is not percent-encoded UTF-8")
        if found is None:
            return text(404, "not found")
        methods, values = found
        route = methods.get(method)
        if route is not None:
            return Found(route, values)
        allowed = list(methods)
        if self._answers_options:
            allowed.append("OPTIONS")
            if method == "OPTIONS":
                return HttpReply(200, b"", TEXT, (("Allow", ", ".join(allowed)),))
        return text(405, f"only {' and '.join(allowed)}", ("Allow", ", ".join(allowed)))


def text(status: int, line: str, *headers: tuple[str, str]) -> HttpReply:
    """Return an HTTP reply with text of one or more lines."""
    return HttpReply(status, f"{line}\n".encode(), TEXT, headers)


def json_of(status: int, value: object) -> HttpReply:
    """Return an HTTP reply with a JSON document."""
    return HttpReply(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", JSON)
