"""ISO 8601 durations in settings, and share.auto.offset.reset."""

import re

from headrace.config.value_types import LONG_MAX

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
_NUMBER = r"([-+]?\d+)"
_DURATION = (
    rf"([-+]?)P(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,](\d{{0,9}}))?S)?)?"
)
"""Compiled when it is first used: a start does without."""
_SECONDS = (86_400, 3600, 60, 1)
"""Seconds of a day, hour, minute and second."""


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration PnDTnHnMn.nS in milliseconds, parsed like Java's Duration.

    ValueError if it is negative, longer than 64 bits of milliseconds, or malformed.
    """
    match = re.fullmatch(_DURATION, text, re.IGNORECASE | re.ASCII)
    if match is None or text[-1:].upper() in {"P", "T"}:
        raise ValueError(f"{text!r} is no duration of the form PnDTnHnMn.nS")
    sign, *parts, fraction = match.groups(default="")
    whole = sum(int(part or 0) * unit for part, unit in zip(parts, _SECONDS, strict=True))
    below = int(fraction.ljust(9, "0")) // 1_000_000 if fraction else 0
    total = whole * 1000 + (-below if parts[-1].startswith("-") else below)
    if sign == "-":
        total = -total
    if total < 0:
        raise ValueError(f"{text!r} is negative")
    if total > LONG_MAX:
        raise ValueError(f"{text!r} is too long")
    return total


def check_offset_reset(text: str) -> None:
    """Raise ValueError for an invalid share.auto.offset.reset."""
    if text.startswith(BY_DURATION):
        duration_ms(text.removeprefix(BY_DURATION))
    elif text not in (LATEST, EARLIEST):
        raise ValueError("must be latest, earliest or by_duration:PnDTnHnMn.nS")
