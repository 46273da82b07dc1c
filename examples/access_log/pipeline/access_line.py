"""A line of a web server's access log: its columns, or why it cannot be read.

timed     nginx's combined format plus `$msec $request_time`, read strictly
combined  the combined format of nginx and Apache; fields behind it are ignored
json      an object with nginx's variables as keys: msec or time_iso8601, remote_addr, status,
          body_bytes_sent, request (or request_method and request_uri), request_time,
          http_referer, http_user_agent

A refusal names the first field that cannot be read, and the byte at which it should begin.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, NamedTuple

from headrace.pipeline import Unreadable

# nginx writes quotes, backslashes and all bytes outside of printable ASCII as \xHH.
_STRICT = rb'"((?:[ !#-\[\]-~]|\\x[0-9A-F]{2})*)"'
_QUOTED = rb'"((?:[^"\\]|\\.)*)"'
_LOCAL_TIME = rb" \[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]"
# Field after field, each with the bytes that must follow it: a refusal names the field.
_TIMED = (
    ("client address", rb"(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|[0-9a-f]*:[0-9a-f:.]+)"),
    ("identity", rb" -"),
    ("user", rb" [!-~]+"),
    ("local time", _LOCAL_TIME),
    ("request", b" " + _STRICT),
    ("status", rb" ([1-5]\d{2})(?= )"),
    ("body bytes", rb" (\d{1,15})(?= )"),
    ("referer", b" " + _STRICT),
    ("user agent", b" " + _STRICT),
    ("event time", rb" (\d{1,11}\.\d{3})(?= )"),
    ("request time", rb" (\d{1,8}\.\d{3})(?!\d)"),
)
_COMBINED = (
    ("client address", rb"([!-~]+)"),
    ("identity", rb" [!-~]+"),
    ("user", rb" [!-~]+"),
    ("local time", _LOCAL_TIME),
    ("request", b" " + _QUOTED),
    ("status", rb" ([1-5]\d{2})(?= )"),
    ("body bytes", rb" (\d{1,15}|-)(?= )"),
    ("referer", b" " + _QUOTED),
    ("user agent", b" " + _QUOTED + rb"(?= |$)"),
)
_REQUEST = re.compile(r"([A-Z]+) ([^ ?]+)(?:\?\S*)? HTTP/\d(?:\.\d)?")


class AccessLine(NamedTuple):
    """A request. `method` and `path` are None if the client spoke no HTTP."""

    event_time: Annotated[int, "TIMESTAMP"] | None = None
    """Microseconds since 1970."""
    client: str | None = None
    method: str | None = None
    path: str | None = None
    """Without the query, so that paths can be counted."""
    status: Annotated[int, "INT"] | None = None
    body_bytes: int | None = None
    request_time_ms: int | None = None
    referer: str | None = None
    agent: str | None = None


class _Format:
    """Fields of a line, compiled."""

    def __init__(self, fields: tuple[tuple[str, bytes], ...], behind: bytes = b"") -> None:
        self._line = re.compile(b"".join(pattern for _, pattern in fields) + behind, re.DOTALL)
        self._steps = [(name, re.compile(pattern, re.DOTALL)) for name, pattern in fields]

    def read(self, line: bytes) -> list[str]:
        """Return the fields of a line without its newline; raises Unreadable."""
        found = self._line.fullmatch(line)
        if found is None:
            raise Unreadable(self._why_not(line))
        try:
            return [field.decode() for field in found.groups()]
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8") from None

    def _why_not(self, line: bytes) -> str:
        at = 0
        for name, step in self._steps:
            found = step.match(line, at)
            if found is None:
                return f"no {name} at byte {at}" if at < len(line) else f"ends before {name}"
            at = found.end()
        return f"{len(line) - at} bytes after the last field"


_TIMED_LINE = _Format(_TIMED)
_COMBINED_LINE = _Format(_COMBINED, rb"(?: .*)?")


def parse_timed(line: bytes) -> AccessLine:
    """Read a line of the format `timed`; raises Unreadable."""
    client, _, request, status, size, referer, agent, at, took = _TIMED_LINE.read(line)
    return _line(_thousandths(at) * 1000, client, request, status, size, took, referer, agent)


def parse_combined(line: bytes) -> AccessLine:
    """Read a line of the format `combined`; raises Unreadable."""
    client, at, request, status, size, referer, agent = _COMBINED_LINE.read(line)
    return _line(_local_time_us(at), client, request, status, size, None, referer, agent)


def parse_json(line: bytes) -> AccessLine:
    """Read a line of the format `json`; raises Unreadable."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise Unreadable(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Unreadable("no JSON object")
    try:
        msec, took = found.get("msec"), found.get("request_time")
        at = _iso_us(str(found["time_iso8601"])) if msec is None else _thousandths(msec) * 1000
        request = found.get("request")
        if request is None:
            method, uri = found.get("request_method", ""), found.get("request_uri", "")
            request = f"{method} {uri} HTTP/1.1"
        status, size, client = found["status"], found["body_bytes_sent"], found["remote_addr"]
        more = (found.get("http_referer"), found.get("http_user_agent"))
        return _line(at, str(client), str(request), str(int(status)), str(int(size)), took, *more)
    except KeyError as error:
        raise Unreadable(f"no key {error.args[0]}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise Unreadable(f"a value of another type: {error}") from None


PARSERS: Mapping[str, Callable[[bytes], AccessLine]] = {
    "timed": parse_timed,
    "combined": parse_combined,
    "json": parse_json,
}


def _line(
    event_time: int, client: str, request: str, status: str, size: str,
    took: object, referer: str | None, agent: str | None,
) -> AccessLine:  # fmt: skip
    asked = _REQUEST.fullmatch(request)
    return AccessLine(
        event_time=event_time,
        client=client,
        method=asked[1] if asked else None,
        path=asked[2] if asked else None,
        status=int(status),
        body_bytes=0 if size == "-" else int(size),
        request_time_ms=None if took is None else _thousandths(took),
        referer=None if referer in ("-", "") else referer,
        agent=None if agent in ("-", "") else agent,
    )


def _thousandths(decimal: object) -> int:
    """Return a number with three places as thousandths, without a float near a time."""
    whole, _, places = str(decimal).partition(".")
    return int(f"{whole}{places[:3]:0<3}")


@lru_cache(1024)  # a second has many lines
def _local_time_us(text: str) -> int:
    try:
        return int(datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").timestamp()) * 1_000_000
    except ValueError:
        raise Unreadable(f"no local time: {text}") from None


def _iso_us(text: str) -> int:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"the time {text} has no zone")
    return round(time.timestamp() * 1_000_000)
