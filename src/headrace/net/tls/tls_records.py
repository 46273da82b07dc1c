"""`whole_records`: find whole TLS records in received bytes."""

HANDSHAKE_RECORD = 0x16
"""The first byte of a client that begins with TLS."""
_RECORD_HEAD_BYTES = 5
_RECORD_BYTES_MAX = (16 << 10) + 256
"""Largest encrypted record content (RFC 8446, 5.2; RFC 5246, 6.2.3 is within)."""


def whole_records(received: bytearray) -> int:
    """Return the size in bytes of the whole TLS records at the beginning; ValueError: not TLS."""
    at = 0
    if received and received[0] != HANDSHAKE_RECORD and received[0] not in {0x14, 0x15, 0x17}:
        raise ValueError("the client does not speak TLS")
    while len(received) - at >= _RECORD_HEAD_BYTES:
        size = int.from_bytes(received[at + 3 : at + 5], "big")
        if received[at + 1] != 3 or size > _RECORD_BYTES_MAX:
            raise ValueError("the client does not speak TLS")
        if len(received) - at < _RECORD_HEAD_BYTES + size:
            break
        at += _RECORD_HEAD_BYTES + size
    return at
