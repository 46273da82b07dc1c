"""Messages between the cleaner and its worker: plain values that fit in a line of JSON."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

Sources = tuple[tuple[int, int], ...]
"""Segments as (base offset, size in bytes), in order."""

Aborted = tuple[tuple[int, int, int, int], ...]
"""`.txnindex` entries: producer id, first offset, last offset, last stable offset."""


class Job(NamedTuple):
    """A log to compact, with offsets and sizes as of the job's creation."""

    directory: str
    partition: str
    segments: Sources
    """All segments below `upper`."""
    first_dirty: int
    """First offset that has not been compacted yet."""
    upper: int
    """The first uncleanable offset, at which a segment begins: nothing from here on is changed."""
    aborted: Aborted
    """Aborted transactions that overlap the segments, in order."""
    producers: tuple[tuple[int, int, int], ...]
    """(id, offset of its last data record or -1, epoch) of each known producer."""
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
    """Records and bytes read and written by a compaction, and records without a key."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    keyless: int = 0
    """Records removed because they have no key, so that they supersede no other record."""
    map_bytes_read: int = 0
    map_records: int = 0


class Cleaned(NamedTuple):
    """Event: a segment is complete and flushed under `.cleaned` names."""

    base_offset: int
    size: int
    files: tuple[str, ...]
    """Suffixes of the cleaned segment's files, `.log` first."""
    sources: Sources
    """The segments that the cleaned segment replaces."""


class Done(NamedTuple):
    """Event: all segments are made. Below `end` the log is clean after the last swap."""

    end: int
    counts: Counts


class Damaged(NamedTuple):
    """Event: the log cannot be compacted; `reason` has file and position."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Event: the work ended early, as it was stopped, failed or was killed.

    A dataclass, as a named tuple would equal a `Damaged` with the same reason.
    """

    reason: str


Event = Cleaned | Done | Damaged
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Job, Cleaned, Done, Damaged, Stopped)
}


def write(message: Event | Stopped | Job) -> bytes:
    """Encode a message as one line of JSON."""
    values = asdict(message) if isinstance(message, Stopped) else message._asdict()
    # Done has a Counts
    line = json.dumps({"kind": type(message).__name__} | values, default=asdict)
    return line.encode() + b"\n"


def read(line: bytes) -> Event | Stopped | Job:
    """Decode a line that `write` encoded."""
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
