"""Heads of HTTP requests, before and after h11 parses them: refusals, target, length of the body.

Proxies disagree on where a head ends whose lines end in a bare LF or are folded, and on where a
body ends that has two lengths. Such requests are refused, as the bytes behind what one reader takes
for their end are a request for another.
"""

import re

HEAD_BYTES_MAX = 8192
"""Longest head of a request in bytes, its empty line included."""
END = b"\r\n\r\n"
"""The end of a head."""
CHUNKED = -1
"""The length of a body that is sent in chunks."""

_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:([^\r\n]*)", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]{1,18}")


def refusal(head: bytes, *, complete: bool) -> tuple[int, str] | None:
    """Return status and text for a head that is refused before h11 parses it, or None."""
    if head[0] <= 0x20 or _AMBIGUOUS.search(head):
        return 400, "bad request"
    if not complete and len(head) >= HEAD_BYTES_MAX:
        if b"\r\n" not in head:
            return 414, f"a request line has at most {HEAD_BYTES_MAX} bytes"
        return 431, f"a request's head has at most {HEAD_BYTES_MAX} bytes"
    return None


def path_and_query(target: str) -> tuple[str, str]:
    """Return path and query of a request target, which may include scheme and host."""
    path, _, query = _AUTHORITY.sub("", target, count=1).partition("?")
    return path or "/", query.partition("#")[0]


def body_length(head: bytes, version: bytes) -> int:
    """Return the length of the body in bytes, `CHUNKED` if it comes in chunks, 0 without one.

    `version`: of HTTP, as `1.1`. Raises ValueError with the reason if readers may disagree on it.
    """
    fields = [(name.lower(), value.strip(b" \t")) for name, value in _LENGTH.findall(head)]
    if not fields:
        return 0
    if len(fields) > 1:
        raise ValueError("a request has one Content-Length or Transfer-Encoding")
    name, value = fields[0]
    if name == b"content-length":
        if not _DIGITS.fullmatch(value):
            raise ValueError("Content-Length is a number of bytes")
        return int(value)
    if version != b"1.1":
        raise ValueError("Transfer-Encoding needs HTTP/1.1")
    if value.lower() != b"chunked":
        raise ValueError("Transfer-Encoding is chunked")
    return CHUNKED
