"""Offsets as users write them: start, end, 42, -10, +5, @2026-11-20T12:00, @-1h"""

import csv
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import UsageError

_WORDS = {
    "start": EARLIEST,
    "earliest": EARLIEST,
    "beginning": EARLIEST,
    "end": LATEST,
    "latest": LATEST,
    "newest": LATEST,
    "oldest": EARLIEST,
}


_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_SPAN = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_SPAN_MS = (86_400_000, 3_600_000, 60_000, 1_000)


class Place(NamedTuple):
    """A position in partitions, not yet an offset.

    kind         number time         a timestamp in milliseconds, EARLIEST or LATEST offset
    the offset before_end   records before the end (or before the current offset) ahead
    records after the current offset
    """

    kind: Literal["time", "offset", "before_end", "ahead"]
    number: int


def parse_place(text: str, flag: str) -> Place:
    """Return the position (offset, time, …) that `text` names. Raises UsageError."""
    word = text.strip().lower()
    if word in _WORDS:
        return Place("time", _WORDS[word])
    if word.startswith("@"):
        return Place("time", time_ms(word[1:], f"{flag} {word}"))
    sign, digits = word[:1], word.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(word) - len(digits) <= 1:
        number = int(digits)
        if sign == "-":
            return Place("before_end", number)
        return Place("ahead" if sign == "+" else "offset", number)
    raise UsageError(f"{flag} {text}: must be start, end, a number, +N, -N or @time")


def span_ms(text: str) -> int | None:
    """Return the milliseconds of a duration such as 1d, 12h or 1h30m, or None for other text."""
    span = _SPAN.fullmatch(text)
    if span is None:
        return None
    return sum(
        int(number) * ms for number, ms in zip(span.groups(), _SPAN_MS, strict=True) if number
    )


def time_ms(text: str, shown: str) -> int:
    """Return milliseconds since 1970 for a number, an ISO 8601 time (local), or -1h30m (ago).

    `shown`: the flag and its value, for the UsageError.
    """
    ago_ms = span_ms(text[1:]) if text.startswith("-") else None
    if ago_ms is not None:
        return max(0, time.time_ns() // 1_000_000 - ago_ms)
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text.upper()).timestamp() * 1000)
    except ValueError:
        raise UsageError(
            f"{shown}: must be milliseconds, a time as 2026-11-20T12:00, or -1h30m"
        ) from None


async def resolve_places(
    client: Client,
    place: Place,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int] | None = None,
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[TopicPartition, int]:
    """Return the offset in each partition, kept between its start and its end.

    `tell` is told of each partition that does not have the offset that was asked for.

    `ahead` counts from `current`, or from the start where that has none; so does `before_end` where
    `current` is given: it goes back.
    """
    if not partitions:
        return {}
    starts = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(client, dict.fromkeys(partitions, LATEST))
    timed = {}
    if place.kind == "time" and place.number not in {EARLIEST, LATEST}:
        timed = await list_offsets(client, dict.fromkeys(partitions, place.number))
    offsets = {}
    for partition in partitions:
        start, end = starts[partition].offset, ends[partition].offset
        match place.kind:
            case "offset":
                offset = place.number
            case "ahead":
                offset = (current or {}).get(partition, start) + place.number
            case "before_end":
                offset = (end if current is None else current.get(partition, end)) - place.number
            case "time" if place.number == EARLIEST:
                offset = start
            case "time" if place.number == LATEST:
                offset = end
            case "time":
                # No record so late: the end, as Kafka's own tools do.
                offset = timed[partition].offset if timed[partition].offset >= 0 else end
        offsets[partition] = kept = min(max(offset, start), end)
        # The last so many of a partition that has fewer are all of them: nothing to tell.
        if kept != offset and not (place.kind == "before_end" and current is None):
            tell(
                f"{partition}: offset {offset} does not exist, the log has {start} to {end}:"
                f" starting at {kept}"
            )
        elif place.kind == "time" and place.number >= 0 and timed[partition].offset < 0:
            tell(
                f"{partition}: no record is at or after that time: starting at the end"
                f" offset, {end}"
            )
    return offsets


def parse_utc(text: str) -> int:
    """Return an ISO 8601 time, UTC without a zone, in milliseconds since 1970.

    Raises UsageError.
    """
    try:
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        raise UsageError(f"--to-datetime {text}: must be as 2026-11-20T12:00:00.000") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """Return an ISO 8601 duration of days, hours, minutes and seconds. Raises UsageError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise UsageError(f"--by-duration {text}: must be as P1DT12H, PT30M or PT10S")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise UsageError(f"--by-duration {text}: is longer than any log") from None


def read_plan(path: Path, group: str) -> Mapping[TopicPartition, int]:
    """Return the offsets for `group` in a CSV file, as kafka-consumer-groups writes it.

    UsageError for an invalid line, and for a file without offsets of the group.
    """
    plan = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) == 4:
                if cells[0] != group:
                    continue
                cells = cells[1:]
            if len(cells) != 3 or not all(_is_number(cell) for cell in cells[1:]):
                raise UsageError(f"{path} line {number}: must be topic,partition,offset")
            plan[TopicPartition(cells[0], int(cells[1]))] = int(cells[2])
    if not plan:
        raise UsageError(f"{path}: has no offsets for group {group}")
    return plan


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def plan_lines(group: str, offsets: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Yield the lines of a file for `read_plan`."""
    for (topic, partition), offset in sorted(offsets.items()):
        yield f"{group},{topic},{partition},{offset}"
