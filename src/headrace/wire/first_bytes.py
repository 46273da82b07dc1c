"""Protocols by their first bytes: a client or a server of another protocol is recognised at once.

The table has a row for each protocol whose clients connect to a wrong port in practice. It is
consulted only for bytes that are not the listener's own protocol.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

FIRST_BYTES = 8
"""Bytes needed to tell the protocols apart; each client's first message has as many."""
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x0a"
"""A fatal TLS alert, unexpected_message: the answer to a client that does not begin with a TLS
handshake, as Kafka's."""


class ProtocolRow(NamedTuple):
    """A protocol: how it is recognised, and how its clients are refused."""

    name: str
    client: str
    """A client of it, with its article."""
    begins: re.Pattern[bytes]
    """Matches the first FIRST_BYTES of a client."""
    answers: re.Pattern[bytes]
    """Matches the first 4 bytes of a server that was sent another protocol's request."""
    refusal: Callable[[str], bytes]
    """Returns the bytes that make a client show this text; the connection then ends."""
    greeting: bytes = b""
    """Sent by a server of the protocol to a client that it cannot refuse in its own protocol."""


def _nothing(text: str) -> bytes:
    """Return no bytes: the protocol has no way to refuse with a text."""
    return b""


def _http_refusal(text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _amqp_refusal(text: str) -> bytes:
    """Return Connection.Close: clients show its text, before Connection.Start too."""
    from headrace.wire.amqp.control_methods import ConnectionClose
    from headrace.wire.amqp.methods import encode_method
    from headrace.wire.amqp.reply_codes import ReplyCode

    return encode_method(0, ConnectionClose(ReplyCode.NOT_IMPLEMENTED, text[:255], 0, 0))


_NEVER = re.compile(rb"(?!)")
KAFKA = ProtocolRow(
    "Kafka",
    "a Kafka",
    # A length below 112 MiB, an API key below 128, a version below 32.
    re.compile(rb"[\x00-\x06].{3}\x00[\x00-\x7f]\x00[\x00-\x1f]", re.DOTALL),
    _NEVER,
    _nothing,
)
AMQP = ProtocolRow(
    "AMQP",
    "an AMQP",
    re.compile(rb"AMQP"),
    re.compile(rb"AMQP"),
    _amqp_refusal,
    b"AMQP\x00\x00\x09\x01",
)
HTTP = ProtocolRow(
    "HTTP",
    "an HTTP",
    re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI) "),
    re.compile(rb"HTTP"),
    _http_refusal,
)
TLS = ProtocolRow(
    "TLS", "a TLS", re.compile(rb"\x16\x03"), re.compile(rb"[\x15\x16]\x03"), _nothing
)
PROTOCOLS = (AMQP, HTTP, TLS, KAFKA)
"""In the order in which they are tried: Kafka's form is the loosest."""


def client_protocol(first: bytes) -> ProtocolRow | None:
    """Return the protocol of a client that begins with these bytes; None: none of the table."""
    return next((row for row in PROTOCOLS if row.begins.match(first)), None)


def server_protocol(first: bytes) -> ProtocolRow | None:
    """Return the protocol of a server that answers a request of Kafka's with these bytes."""
    return next((row for row in PROTOCOLS if row.answers.match(first)), None)
