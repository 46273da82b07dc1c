"""Durations and the offsets they stand for, as settings write them."""

import re

from headrace.config.value_types import LONG_MAX

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
_NUMBER = r"([-+]?\d+)"
_DURATION = re.compile(
    rf"([-+]?)P(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,](\d{{0,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS = (86_400, 3600, 60, 1)


def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration as Java's Duration does, PnDTnHnMn.nS, to milliseconds.

    ValueError, also for one that is negative or longer than 64 bits of milliseconds.
    """
    match = _DURATION.fullmatch(text)
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
    """Refuse what is no share.auto.offset.reset: ValueError."""
    if text.startswith(BY_DURATION):
        duration_ms(text.removeprefix(BY_DURATION))
    elif text not in (LATEST, EARLIEST):
        raise ValueError("must be latest, earliest or by_duration:PnDTnHnMn.nS")
