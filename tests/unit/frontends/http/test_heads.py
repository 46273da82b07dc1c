"""Heads of HTTP requests: targets and the length of a body."""

import pytest

from headrace.frontends.http.heads import CHUNKED, body_length, path_and_query

LINE = b"PUT / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/a/b?c=d&e", ("/a/b", "c=d&e")),
        ("/a#b", ("/a#b", "")),
        ("/a?b#c", ("/a", "b")),
        ("http://host:1/a?b", ("/a", "b")),
        ("HTTPS://host?b", ("/", "b")),
        ("*", ("*", "")),
    ],
)
def test_a_target_has_a_path_and_a_query(target: str, expected: tuple[str, str]) -> None:
    assert path_and_query(target) == expected


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        (b"", 0),
        (b"Content-Length: 0\r\n", 0),
        (b"content-length:17\r\n", 17),
        (b"CONTENT-LENGTH: 17 \t\r\n", 17),
        (b"Transfer-Encoding: chunked\r\n", CHUNKED),
        (b"transfer-encoding:CHUNKED\r\n", CHUNKED),
        (b"X-Content-Length: 4\r\nA: Content-Length: 3\r\n", 0),
    ],
)
def test_the_length_of_a_body_is_read_from_its_field(fields: bytes, length: int) -> None:
    assert body_length(LINE + fields + b"\r\n", b"1.1") == length


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\ncontent-length: 4\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length: 3_0\r\n",
        b"Content-Length: 1234567890123456789\r\n",
        b"Content-Length:\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
    ],
)
def test_a_length_that_readers_may_disagree_on_is_refused(fields: bytes) -> None:
    with pytest.raises(ValueError, match=r"Content-Length|Transfer-Encoding"):
        body_length(LINE + fields + b"\r\n", b"1.1")


def test_chunks_need_http_1_1() -> None:
    with pytest.raises(ValueError, match=r"needs HTTP/1\.1"):
        body_length(LINE + b"Transfer-Encoding: chunked\r\n\r\n", b"1.0")
