"""The table of paths: which handler answers a request, and the types of both."""

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
"""Every status that is answered, with its reason phrase."""


class HttpRequest(NamedTuple):
    """A request without a body."""

    method: str
    path: str
    """Without the query."""
    identity: Identity


class HttpReply(NamedTuple):
    """An answer; `Content-Length` and `Connection` are added by the session."""

    status: int
    """A key of `REASONS`."""
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
    """The handlers by path and method."""

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._paths: dict[str, dict[str, Handler]] = {}
        for route in routes:
            methods = self._paths.setdefault(route.path, {})
            methods[route.method] = route.handler
            if route.method == "GET":
                methods["HEAD"] = route.handler

    def find(self, method: str, path: str) -> Handler | HttpReply:
        """Return the handler of a request, or the reply that refuses it: 404 or 405."""
        methods = self._paths.get(path)
        if methods is None:
            return text(404, "not found")
        handler = methods.get(method)
        if handler is not None:
            return handler
        allowed = list(methods)
        return text(405, f"only {' and '.join(allowed)}", ("Allow", ", ".join(allowed)))


def text(status: int, line: str, *headers: tuple[str, str]) -> HttpReply:
    """Return a reply of one line of text, or several."""
    return HttpReply(status, f"{line}\n".encode(), TEXT, headers)


def json_of(status: int, value: object) -> HttpReply:
    """Return a reply of one JSON document."""
    return HttpReply(status, json.dumps(value, ensure_ascii=False).encode() + b"\n", JSON)
