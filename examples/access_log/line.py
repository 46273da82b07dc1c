"""One line of the access log: nginx's combined format plus `$msec $request_time`, read strictly.

nginx escapes quotes, backslashes and everything outside printable ASCII as `\\xHH`, so a sound line
is printable ASCII whose quotes pair. Whatever is not that is refused with the name of the first
field that cannot be read and the byte it should start at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headrace.pipeline import Unreadable

# Field after field, each with what must follow it. Kept apart so that a refusal can name the field.
_QUOTED = rb'"((?:[ !#-\[\]-~]|\\x[0-9A-F]{2})*)"'
_FIELDS = (
    ("client address", rb"(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|[0-9a-f]*:[0-9a-f:.]+)"),
    ("identity", rb" -"),
    ("user", rb" ([!-~]+)"),
    ("local time", rb" \[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}\]"),
    ("request", b" " + _QUOTED),
    ("status", rb" ([1-5]\d{2})(?= )"),
    ("body bytes", rb" (\d{1,15})(?= )"),
    ("referer", b" " + _QUOTED),
    ("user agent", b" " + _QUOTED),
    ("event time", rb" (\d{1,11}\.\d{3})(?= )"),
    ("request time", rb" (\d{1,8}\.\d{3})(?!\d)"),
)
_LINE = re.compile(b"".join(pattern for _, pattern in _FIELDS))
_STEPS = tuple((name, re.compile(pattern)) for name, pattern in _FIELDS)
_REQUEST = re.compile(r"([A-Z]+) ([^ ?]+)(?:\?\S*)? HTTP/\d\.\d")


class AccessLine(NamedTuple):
    """What one request was. `method` and `path` are None where the client spoke no HTTP."""

    event_time_us: int
    client: str
    method: str | None
    path: str | None
    status: int
    body_bytes: int
    request_time_ms: int
    referer: str | None
    agent: str | None


def parse(line: bytes) -> AccessLine:
    """Read one line without its newline; raises `Unreadable` naming the first field that is wrong.

    The path loses its query, so that paths can be counted.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        raise Unreadable(_why_not(line))
    client, _, request, status, size, referer, agent, seconds, took = map(
        bytes.decode, found.groups()
    )
    asked = _REQUEST.fullmatch(request)
    return AccessLine(
        event_time_us=_thousandths(seconds) * 1000,
        client=client,
        method=asked[1] if asked else None,
        path=asked[2] if asked else None,
        status=int(status),
        body_bytes=int(size),
        request_time_ms=_thousandths(took),
        referer=None if referer == "-" else referer,
        agent=None if agent == "-" else agent,
    )


def _thousandths(decimal: str) -> int:
    """nginx prints exactly three places, so no float needs to come near a time."""
    return int(decimal.replace(".", ""))


def _why_not(line: bytes) -> str:
    at = 0
    for name, step in _STEPS:
        found = step.match(line, at)
        if found is None:
            return f"no {name} at byte {at}" if at < len(line) else f"ends before {name}"
        at = found.end()
    return f"{len(line) - at} bytes after the last field"
