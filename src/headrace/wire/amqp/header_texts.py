"""Values of user headers as texts and as bytes, for readers that have no field tables.

Strings and bytes are themselves, numbers are decimal, `true` and `false` are booleans, a timestamp
is seconds since 1970; tables and arrays are JSON. Void has no text.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal as DecimalNumber

from headrace.wire.amqp.field_table import Decimal, FieldValue


def value_bytes(value: FieldValue) -> bytes | None:
    """Return a value as bytes; None: it is void."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return _text(value).encode()


def value_text(value: FieldValue) -> str | None:
    """Return a value as a text; what is no UTF-8 in it is replaced. None: it is void."""
    raw = value_bytes(value)
    return None if raw is None else raw.decode("utf-8", "replace")


def header_texts(table: Mapping[str, FieldValue]) -> dict[str, str | None]:
    """Return all headers as texts."""
    return {clean(name): value_text(value) for name, value in table.items()}


def clean(text: str) -> str:
    """Return a text that any UTF-8 reader takes: bytes that were none are replaced."""
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
    """Return a value as JSON has it: decimals and bytes become strings."""
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
