"""Values of AMQP headers as strings and bytes, for readers without field tables.

Strings and bytes are unchanged, numbers are decimal, booleans `true` and `false`, timestamps
seconds since 1970; tables and arrays are JSON. Void has no text.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal as DecimalNumber

from headrace.wire.amqp.field_table import Decimal, FieldValue


def value_bytes(value: FieldValue) -> bytes | None:
    """Convert a header value to bytes; None if it is void."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return _text(value).encode()


def value_text(value: FieldValue) -> str | None:
    """Convert a header value to a string, replacing invalid UTF-8; None if it is void."""
    raw = value_bytes(value)
    return None if raw is None else raw.decode("utf-8", "replace")


def header_texts(table: Mapping[str, FieldValue]) -> dict[str, str | None]:
    """Convert all headers of a table to strings."""
    return {clean(name): value_text(value) for name, value in table.items()}


def clean(text: str) -> str:
    """Replace the bytes of a decoded string that were not UTF-8, so that any reader accepts it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text(value: FieldValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal(scale, unscaled):
            return f"{DecimalNumber(unscaled).scaleb(-scale):f}"
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: FieldValue) -> object:
    """Convert a value for JSON: decimals and bytes become strings."""
    match value:
        case None | bool():
            return value
        case Decimal():
            return _text(value)
        case str() | bytes():
            return value_text(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case Mapping():
            return {clean(name): _plain(each) for name, each in value.items()}
        case Sequence():
            return [_plain(each) for each in value]
