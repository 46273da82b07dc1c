"""Values of rows in one form, whoever read them: what JSON can carry, and equal where they are."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Return bytes as hex digits, times in UTC, decimals and NaN as text."""
    match value:
        case bytes() | bytearray():
            return value.hex()
        case datetime():
            naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return naive.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case float():
            return repr(value)
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value
