"""The table of paths: handlers of requests, and the types of requests and replies."""

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from headrace.security.identity import Identity

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
"""The reason phrase of every status that is sent."""


class HttpRequest(NamedTuple):
    """An HTTP request without a body."""

    method: str
    path: str
    """The path without the query."""
    identity: Identity


class HttpReply(NamedTuple):
    """A reply; `Content-Length` and `Connection` are added by the session."""

    status: int
    """The HTTP status, a key of `REASONS`."""
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


class HttpRoute(NamedTuple):
    """A method of a path, and its handler. HEAD is served by the handler of GET."""

    method: str
    path: str
    handler: Handler


class HttpRouter:
    """The handlers of HTTP requests, by path and method."""

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._paths: dict[str, dict[str, Handler]] = {}
        for route in routes:
            methods = self._paths.setdefault(route.path, {})
            methods[route.method] = route.handler
            if route.method == "GET":
                methods["HEAD"] = route.handler

    def find(self, method: str, path: str) -> Handler | HttpReply:
        """Return the handler of a request, or a reply that refuses it: 404 or 405."""
        methods = self._paths.get(path)
        if methods is None:
            return text(404, "not found")
        handler = methods.get(method)
        if handler is not None:
            return handler
        allowed = list(methods)
        return text(405, f"only {' and '.join(allowed)}", ("Allow", ", ".join(allowed)))


def text(status: int, line: str, *headers: tuple[str, str]) -> HttpReply:
    """Return an HTTP reply with text of one or more lines."""
    return HttpReply(status, f"{line}\n".encode(), TEXT, headers)


def json_of(status: int, value: object) -> HttpReply:
    """Return an HTTP reply with a JSON document."""
    return HttpReply(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", JSON)
