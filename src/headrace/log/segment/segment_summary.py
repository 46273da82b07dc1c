"""`Swept`: the result of reading a segment from first to last batch: indexes, epochs, end."""

from array import array
from typing import TYPE_CHECKING

from headrace.log.segment.indexes import NO_TIMESTAMP, offset_limit
from headrace.log.segment.scan import headers
from headrace.model.nouns import Offset
from headrace.record.batch_layout import OVERHEAD_BYTES

if TYPE_CHECKING:
    from headrace.log.segment.scan import BadBatch, Fetch

INDEX_INTERVAL_BYTES = 4096
"""The default of index.interval.bytes; topic settings are unknown here."""


class Swept:
    """The result of one pass over a segment: index entries, leader epochs, end, damage."""

    __slots__ = (
        "bad",
        "base_offset",
        "bytes_since_index",
        "end",
        "epochs",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "position",
        "positions",
        "time_offsets",
        "times",
    )

    def __init__(self, base: Offset, expected: Offset) -> None:
        self.base_offset = base
        self.bad: BadBatch | None = None
        """The invalid batch that stopped the pass; None if it reached the end of the file."""
        self.end = expected
        """The offset after the last valid batch."""
        self.position = 0
        """The byte at which the last valid batch ends."""
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, base offset of its first batch), ascending."""
        self.offsets, self.positions = array("i"), array("i")
        self.times, self.time_offsets = array("q"), array("i")
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base
        self.first_timestamp: int | None = None
        self.bytes_since_index = 0

    @classmethod
    def of(cls, fetch: "Fetch", size: int, path: str, base: Offset) -> "Swept":
        """Collect the index entries of a segment of `size` bytes from its batch headers.
        Raises BadBatch."""
        found = cls(base, base)
        for position, header in headers(fetch, 0, size, path, base, offset_limit(base)):
            last = header.base_offset + header.last_offset_delta
            length = header.batch_length + OVERHEAD_BYTES
            found.note(position, length, last, header.max_timestamp)
        return found

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch to the collected entries and counters."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, Offset(last_offset)
        if self.bytes_since_index > INDEX_INTERVAL_BYTES:
            self.index(last_offset, position, self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += size
        if position == 0:
            self.first_timestamp = max_timestamp
        self.end = Offset(last_offset + 1)
        self.position = position + size

    def index(self, last_offset: int, position: int, newest: int, newest_offset: int) -> None:
        """Add an index entry for the batch at `position`, with the greatest timestamp so far."""
        self.offsets.append(last_offset - self.base_offset)
        self.positions.append(position)
        self.note_time(newest, newest_offset)

    def note_time(self, newest: int, newest_offset: int) -> None:
        """Add a time index entry for the greatest timestamp so far, unless the last is equal."""
        if newest > (self.times[-1] if self.times else NO_TIMESTAMP):
            self.times.append(newest)
            self.time_offsets.append(newest_offset - self.base_offset)
