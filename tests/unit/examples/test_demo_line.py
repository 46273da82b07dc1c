"""The access log's parser: what nginx writes is read exactly, what it cannot have written, not."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.access_log.line import AccessLine, parse
from headrace.pipeline import Unreadable

LINE = (
    b"192.0.2.7 - - [20/Nov/2026:19:04:43 +0000] "
    b'"GET /products/?page=3 HTTP/1.1" 200 13886 "https://mill.example/" "ExampleBot/1.0" '
    b"1795201318.728 0.041"
)


def test_every_field_of_a_sound_line_is_read() -> None:
    assert parse(LINE) == AccessLine(
        event_time_us=1795201318_728_000,
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
    line = parse(LINE.replace(b'"https://mill.example/" "ExampleBot/1.0"', b'"-" "-"'))
    assert (line.referer, line.agent) == (None, None)


def test_a_request_that_is_no_http_is_a_sound_line_without_method_and_path() -> None:
    line = parse(
        LINE.replace(b"GET /products/?page=3 HTTP/1.1", rb"\x16\x03\x01\x00").replace(
            b" 200 ", b" 400 "
        )
    )
    assert (line.method, line.path, line.status) == (None, None, 400)


def test_an_ipv6_client_is_a_client() -> None:
    assert parse(LINE.replace(b"192.0.2.7", b"2001:db8::7")).client == "2001:db8::7"


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
        parse(damaged)


@given(st.integers(min_value=0, max_value=len(LINE) - 1))
def test_no_part_of_a_line_passes_for_a_line(size: int) -> None:
    with pytest.raises(Unreadable):
        parse(LINE[:size])


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line_or_unreadable_and_nothing_else(junk: bytes) -> None:
    with contextlib.suppress(Unreadable):
        parse(junk)
