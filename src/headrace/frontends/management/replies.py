"""Replies of the management API as HTTP: headers as RabbitMQ's, JSON, refusals."""

import json
from collections.abc import AsyncGenerator, AsyncIterator

from headrace.frontends.http.router import JSON, HttpReply
from headrace.management.requests.errors import ManagementError
from headrace.management.requests.request import ManagementReply

_HEADERS = (
    ("Cache-Control", "no-cache"),
    ("Vary", "accept, accept-encoding, origin"),
    ("Content-Security-Policy", "script-src 'self'; object-src 'self'"),
)
HTML = "text/html; charset=utf-8"
_BODY_ERRORS = {408: "request_timeout", 413: "payload_too_large", 503: "service_unavailable"}
"""By HTTP status: `error` of a body that is not received; else `bad_request`."""


def to_http(reply: ManagementReply, allow: str) -> HttpReply:
    """Return a handler's reply; `allow` names the methods of its path."""
    own = {name for name, _ in reply.headers}
    usual = tuple(each for each in _headers(allow) if each[0] not in own)
    headers = (*reply.headers, *usual)
    if reply.rows is not None:
        return HttpReply(reply.status, _array(reply.rows), JSON, headers, compresses=True)
    if reply.value is None:
        return HttpReply(reply.status, b"", "", headers)
    return HttpReply(reply.status, encoded(reply.value), JSON, headers, compresses=True)


def empty(status: int, allow: str = "", *more: tuple[str, str]) -> HttpReply:
    """Return a reply without a body."""
    return HttpReply(status, b"", "", (*more, *_headers(allow)))


def refusal(error: ManagementError, allow: str = "") -> HttpReply:
    """Return a refusal with its JSON object."""
    return HttpReply(error.status, encoded(error.value), JSON, _headers(allow))


def html(page: bytes) -> HttpReply:
    """Return a page for people."""
    return HttpReply(200, page, HTML, _headers("HEAD, GET, OPTIONS"))


def body_refusal(status: int, reason: str) -> ManagementError:
    """Return the refusal of a body that is too long, too slow or malformed."""
    return ManagementError(status, _BODY_ERRORS.get(status, "bad_request"), reason)


def encoded(value: object) -> bytes:
    """Return a value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(allow: str) -> tuple[tuple[str, str], ...]:
    return (*_HEADERS, ("Allow", allow)) if allow else _HEADERS


async def _array(rows: AsyncIterator[object]) -> AsyncGenerator[bytes, None]:
    begin = b"["
    async for row in rows:
        yield begin + encoded(row)
        begin = b","
    yield b"]" if begin == b"," else b"[]"
