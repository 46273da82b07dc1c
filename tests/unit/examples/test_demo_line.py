"""The access log's parser: what nginx writes is read exactly, what it cannot have written, not."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.access_log.pipeline.access_line import PARSERS, AccessLine, parse_timed
from headrace.pipeline import Unreadable

LINE = (
    b"192.0.2.7 - - [20/Nov/2026:19:04:43 +0000] "
    b'"GET /products/?page=3 HTTP/1.1" 200 13886 "https://mill.example/" "ExampleBot/1.0" '
    b"1795201318.728 0.041"
)


def test_every_field_of_a_sound_line_is_read() -> None:
    assert parse_timed(LINE) == AccessLine(
        event_time=1795201318_728_000,
        client="192.0.2.7",
        method="GET",
        path="/products/",
        status=200,
        body_bytes=13886,
        request_time_ms=41,
        referer="https://mill.example/",
        agent="ExampleBot/1.0",
    )


def test_what_nginx_writes_for_nothing_becomes_none() -> None:
    line = parse_timed(LINE.replace(b'"https://mill.example/" "ExampleBot/1.0"', b'"-" "-"'))
    assert (line.referer, line.agent) == (None, None)


def test_a_request_that_is_no_http_is_a_sound_line_without_method_and_path() -> None:
    line = parse_timed(
        LINE.replace(b"GET /products/?page=3 HTTP/1.1", rb"\x16\x03\x01\x00").replace(
            b" 200 ", b" 400 "
        )
    )
    assert (line.method, line.path, line.status) == (None, None, 400)


def test_an_ipv6_client_is_a_client() -> None:
    assert parse_timed(LINE.replace(b"192.0.2.7", b"2001:db8::7")).client == "2001:db8::7"


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (LINE[:60], "no request at byte 42"),
        (LINE[5:], "no client address at byte 0"),
        (b"", "ends before client address"),
        (LINE.replace(b" 200 ", b" "), "no status at byte"),
        (LINE.replace(b'HTTP/1.1"', b"HTTP/1.1"), "no status at byte"),
        (LINE.replace(b"/products", b'/pro"ducts'), "no status at byte"),
        (LINE.replace(b"Bot", b"\xff\xfe"), "no user agent at byte"),
        (LINE.replace(b" 0.041", b""), "no event time at byte"),
        (LINE.replace(b" 0.041", b" null"), "no request time at byte"),
        (LINE[:-1], "no request time at byte"),
        (LINE + b" 1", "2 bytes after the last field"),
        (LINE + b"\n" + LINE, "bytes after the last field"),
    ],
)
def test_damage_is_refused_with_the_first_field_that_cannot_be_read(
    damaged: bytes, reason: str
) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        parse_timed(damaged)


@given(st.integers(min_value=0, max_value=len(LINE) - 1))
def test_no_part_of_a_line_passes_for_a_line(size: int) -> None:
    with pytest.raises(Unreadable):
        parse_timed(LINE[:size])


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line_or_unreadable_and_nothing_else(junk: bytes) -> None:
    with contextlib.suppress(Unreadable):
        parse_timed(junk)


COMBINED = LINE.removesuffix(b" 1795201318.728 0.041")
AT = 1795201483_000_000
"""20 November 2026, 19:04:43 UTC, in microseconds."""


def test_a_combined_line_has_its_local_time_and_no_request_time() -> None:
    line = PARSERS["combined"](COMBINED)
    assert (line.event_time, line.request_time_ms) == (AT, None)
    assert (line.client, line.path, line.status, line.agent) == (
        *("192.0.2.7", "/products/", 200),
        "ExampleBot/1.0",
    )


def test_a_zone_of_a_combined_line_counts() -> None:
    line = PARSERS["combined"](COMBINED.replace(b"+0000", b"-0130"))
    assert line.event_time == AT + 5400 * 1_000_000


def test_a_combined_line_of_apache_is_read() -> None:
    request = b'host.example ident frank [20/Nov/2026:19:04:43 +0000] "GET /a HTTP/2"'
    line = PARSERS["combined"](request + b' 304 - "-" "a \\"b\\""')
    assert (line.client, line.path, line.status, line.body_bytes) == ("host.example", "/a", 304, 0)
    assert line.agent == 'a \\"b\\"'


def test_fields_behind_a_combined_line_are_ignored() -> None:
    assert PARSERS["combined"](COMBINED + b' "10.0.0.1" 0.2') == PARSERS["combined"](COMBINED)


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (COMBINED[:60], "no request at byte 42"),
        (COMBINED.replace(b"20/Nov", b"40/Nov"), "no local time: 40/Nov/2026:19:04:43 +0000"),
        (COMBINED.replace(b" 200 ", b" "), "no status at byte"),
        (COMBINED[:-1], "no user agent at byte"),
        (COMBINED + b"x", "no user agent at byte"),
        (COMBINED.replace(b"Bot", b"\xff\xfe"), "not UTF-8"),
        (b"", "ends before client address"),
    ],
)
def test_a_damaged_combined_line_is_refused(damaged: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        PARSERS["combined"](damaged)


JSON = {
    "time_iso8601": "2026-11-20T20:04:43+01:00",
    "remote_addr": "192.0.2.7",
    "request": "GET /products/?page=3 HTTP/1.1",
    "status": "200",
    "body_bytes_sent": 13886,
    "request_time": "0.041",
    "http_referer": "",
    "http_user_agent": "ExampleBot/1.0",
}


def json_line(**changed: object) -> bytes:
    """A line with other values; None removes a key."""
    merged = JSON | changed
    return json.dumps({key: value for key, value in merged.items() if value is not None}).encode()


def test_a_json_line_has_the_columns_of_a_timed_one() -> None:
    line = PARSERS["json"](json_line())
    assert line == parse_timed(LINE)._replace(event_time=AT, referer=None)


def test_msec_of_a_json_line_is_exact() -> None:
    line = PARSERS["json"](json_line(msec="1795201318.728"))
    assert line.event_time == 1795201318_728_000


def test_method_and_uri_of_a_json_line_are_its_request() -> None:
    line = PARSERS["json"](json_line(request=None, request_method="POST", request_uri="/a?b=1"))
    assert (line.method, line.path) == ("POST", "/a")


def test_a_json_line_needs_no_request_time() -> None:
    assert PARSERS["json"](json_line(request_time=None)).request_time_ms is None


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (json_line()[:-1], "no JSON: "),
        (b"[1]", "no JSON object"),
        (b"\xff", "no JSON: "),
        (json_line(status=None), "no key status"),
        (json_line(time_iso8601=None), "no key time_iso8601"),
        (json_line(time_iso8601="2026-11-20T19:04:43"), "has no zone"),
        (json_line(status="ok"), "a value of another type"),
        (json_line(status=[200]), "a value of another type"),
        (json_line(request_time="soon"), "a value of another type"),
    ],
)
def test_a_damaged_json_line_is_refused(damaged: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        PARSERS["json"](damaged)


@pytest.mark.parametrize("name", ["combined", "json"])
@given(junk=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_each_format(name: str, junk: bytes) -> None:
    with contextlib.suppress(Unreadable):
        PARSERS[name](junk)
