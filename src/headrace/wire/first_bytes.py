"""Protocols by their first bytes: a client or a server of another protocol is recognised at once.

The table has a row for each protocol whose clients connect to a wrong port in practice. It is
consulted only for bytes that are not the listener's own protocol.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from headrace.model.protocols import ROWS, loaded

FIRST_BYTES = 8
"""Bytes needed to tell the protocols apart; each client's first message has as many."""
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x0a"
"""A fatal TLS alert, unexpected_message: the answer to a client that does not begin with a TLS
handshake, as Kafka's."""


class FirstBytes(NamedTuple):
    """A protocol: how it is recognised, and how its clients are refused."""

    name: str
    client: str
    """A client of it, with its article."""
    begins: bytes
    """A regular expression for the first FIRST_BYTES of a client; compiled with its first use."""
    answers: bytes
    """The same for the first 4 bytes of a server that was sent another protocol's request."""
    refusal: Callable[[str], bytes]
    """Returns the bytes that make a client show this text; the connection then ends."""
    greeting: bytes = b""
    """Sent by a server of the protocol to a client that it cannot refuse in its own protocol."""


def no_refusal(text: str) -> bytes:
    """Return no bytes: the protocol has no way to refuse with a text."""
    return b""


def _http_refusal(text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_NEVER = rb"(?!)"
KAFKA = FirstBytes(
    "Kafka",
    "a Kafka",
    # A length below 112 MiB, an API key below 128, a version below 32.
    rb"(?s)[\x00-\x06].{3}\x00[\x00-\x7f]\x00[\x00-\x1f]",
    _NEVER,
    no_refusal,
)
HTTP = FirstBytes(
    "HTTP",
    "an HTTP",
    rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) ",
    rb"HTTP",
    _http_refusal,
)
TLS = FirstBytes("TLS", "a TLS", rb"\x16\x03", rb"[\x15\x16]\x03", no_refusal)


def protocols() -> tuple[FirstBytes, ...]:
    """Return all protocols in the order in which they are tried: Kafka's form is the loosest."""
    others = [loaded(row.first_bytes) for row in ROWS if row.frontend and row.first_bytes]
    return tuple(dict.fromkeys((*others, HTTP, TLS, KAFKA)))


def client_protocol(first: bytes) -> FirstBytes | None:
    """Return the protocol of a client that begins with these bytes; None: none of the table."""
    return next((row for row in protocols() if re.match(row.begins, first)), None)


def server_protocol(first: bytes) -> FirstBytes | None:
    """Return the protocol of a server that answers a request of Kafka's with these bytes."""
    return next((row for row in protocols() if re.match(row.answers, first)), None)
