"""Times such as "15 minutes"."""

from __future__ import annotations

import re

_UNIT_MS = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000,
    "week": 7 * 86_400_000,
}  # fmt: skip


def interval_ms(text: str) -> int | None:
    """Return an interval such as "10 minutes" in milliseconds; None for another form."""
    found = re.fullmatch(r"\s*(?:interval\s+)?(\d+)\s*([a-z]+?)s?\s*", text, re.IGNORECASE)
    unit = _UNIT_MS.get(found[2].lower()) if found else None
    return None if found is None or unit is None else int(found[1]) * unit
