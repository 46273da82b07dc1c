"""What the one who compacts is handed, and what he tells: plain values, made to cross a pipe."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

Sources = tuple[tuple[int, int], ...]
"""Segments as (base offset, size in bytes), in order."""

Aborted = tuple[tuple[int, int, int, int], ...]
"""`.txnindex` entries: producer id, first and last offset, last stable offset."""


class Job(NamedTuple):
    """One log to be compacted. Offsets and sizes as they were when it was given."""

    directory: str
    partition: str
    segments: Sources
    """All segments below `upper`."""
    first_dirty: int
    """Records from here on have not been compacted yet."""
    upper: int
    """Nothing from here on is touched: the base of a segment (the first uncleanable offset)."""
    aborted: Aborted
    """What overlaps the segments, in order."""
    producers: tuple[tuple[int, int, int], ...]
    """Of each known producer: id, offset of its last data record (-1: none), epoch."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float
    inflated_bytes_max: int


@dataclass(slots=True)
class Counts:
    """What was read, what was kept, and what had no key."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    keyless: int = 0
    """Records without a key that were left out: nothing tells what they supersede."""
    map_bytes_read: int = 0
    map_records: int = 0


class Cleaned(NamedTuple):
    """A segment was made, complete and flushed, under `.cleaned` names."""

    base_offset: int
    size: int
    files: tuple[str, ...]
    """Suffixes of its files, `.log` first."""
    sources: Sources
    """The segments it takes the place of."""


class Done(NamedTuple):
    """All is made. Everything below `end` is clean once the last segment is swapped in."""

    end: int
    counts: Counts


class Damaged(NamedTuple):
    """The log cannot be compacted: what is wrong, with file and position."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The work has ended early and nobody works on it any more: asked to, failed, or killed.

    A dataclass: a named tuple would equal a `Damaged` of the same reason.
    """

    reason: str


Event = Cleaned | Done | Damaged
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Job, Cleaned, Done, Damaged, Stopped)
}


def write(message: Event | Stopped | Job) -> bytes:
    """Return one line of JSON."""
    values = asdict(message) if isinstance(message, Stopped) else message._asdict()
    line = json.dumps({"kind": type(message).__name__} | values, default=asdict)  # Done's counts
    return line.encode() + b"\n"


def read(line: bytes) -> Event | Stopped | Job:
    """Return what `write` wrote."""
    values = json.loads(line)
    kind = _KINDS[values.pop("kind")]
    made: Event | Stopped | Job = kind(**{name: _tuples(value) for name, value in values.items()})
    if isinstance(made, Done):
        counts = values["counts"]
        return Done(
            made.end, Counts(**{field.name: counts[field.name] for field in fields(Counts)})
        )
    return made


def _tuples(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
