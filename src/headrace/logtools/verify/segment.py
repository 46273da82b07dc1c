"""Verify a segment: its batches to the last record, and both indexes."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

from headrace.log import file_names
from headrace.log.segment.indexes import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY
from headrace.log.segment.scan import BadBatch, Batch, batches
from headrace.log.text_files import read_file
from headrace.logtools.verify.report import Kind, Report
from headrace.ports.disk import Disk
from headrace.record.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, Codec, CorruptBatch
from headrace.record.batch import records as records_of

_PROGRESS_BYTES = 1 << 20


@dataclass(slots=True)
class SegmentFacts:
    """Facts about a segment, derived from its `.log`."""

    base: int
    path: str
    """Path of the `.log` file."""
    size: int = 0
    end: int = 0
    """The offset after the last valid batch."""
    sound_bytes: int = 0
    bad: BadBatch | None = None
    max_timestamp: int = NO_TIMESTAMP
    thinned: bool = False
    """Whether the segment was compacted: it has offsets without records."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a segment's files must be valid."""

    beside: bool = True
    """Whether indexes must be complete and correct; not above the recovery point after a kill."""
    torn_from: int | None = None
    """First offset at which an invalid batch may be a torn tail; None: there are none after a clean
    shutdown."""
    last: bool = False
    """Whether a broker may be writing to the segment."""
    durable: int = 0
    """Offset up to which the segment is flushed, even while it is being written."""


class SegmentCheck:
    """Verifies one segment; yields each valid batch to the caller."""

    def __init__(
        self, disk: Disk, directory: str, base: int, report: Report, trust: Trust, expected: int
    ) -> None:
        """Create the check of a segment.

        `expected`: the least offset that the segment may begin with.
        """
        self._disk = disk
        self._report = report
        self._trust = trust
        self._stem = f"{directory}/{file_names.segment_file(base, '')}"
        self.facts = SegmentFacts(base, self._stem + file_names.LOG, end=max(base, expected))
        # Index entries by position, and time index entries (next one last), that no batch has
        # matched yet.
        self._index: dict[int, int] = {}
        self._times: list[tuple[int, int]] = []
        self._last_time = NO_TIMESTAMP
        self._wrong_index: str | None = None
        self._wrong_time: str | None = None

    def walk(self) -> Iterator[Batch]:
        """Yield the valid batches; problems of the segment are reported."""
        facts, report = self.facts, self._report
        self._load_indexes()
        with closing(self._disk.open(facts.path, writable=False)) as file:
            facts.size = file.size()
            told = 0
            try:
                found = batches(file.read, 0, facts.size, facts.path, facts.end)
                for batch in found:
                    self._look_at(batch)
                    yield batch
                    if facts.sound_bytes - told >= _PROGRESS_BYTES:
                        report.read(facts.sound_bytes - told)
                        told = facts.sound_bytes
            except BadBatch as bad:
                facts.bad = bad
                self._report_bad(bad)
            report.read(facts.size - told)
        report.segments += 1
        self._finish()

    def _load_indexes(self) -> None:
        index = self._entries(file_names.INDEX, OFFSET_ENTRY, Kind.INDEX)
        times = self._entries(file_names.TIME_INDEX, TIME_ENTRY, Kind.TIME_INDEX)
        base = self.facts.base
        self._index = {position: base + offset for offset, position in index}
        self._times = [(time, base + offset) for time, offset in times][::-1]

    def _entries(self, suffix: str, entry: Struct, kind: Kind) -> list[tuple[int, int]]:
        """Return an index's entries without the preallocated rest; empty if the file is invalid."""
        path = self._stem + suffix
        content = read_file(self._disk, path) or b""
        used = -(-len(content.rstrip(b"\0")) // entry.size) * entry.size
        wrong = None
        entries: list[tuple[int, int]] = []
        if len(content) % entry.size:
            wrong = f"{len(content)} bytes are no whole entries of {entry.size}"
        else:
            entries = list(entry.iter_unpack(content[:used]))
            strict = entry is OFFSET_ENTRY
            growing = all(a[0] < b[0] and a[1] + strict <= b[1] for a, b in pairwise(entries))
            if not growing or (entries and min(entries[0]) < 0):
                wrong, entries = "its entries do not grow", []
        if wrong is not None:
            if kind is Kind.INDEX:
                self._wrong_index = wrong
            else:
                self._wrong_time = wrong
        return entries

    def _look_at(self, batch: Batch) -> None:
        """Check a batch's records and the index entries that refer to the batch.

        Raises BadBatch.
        """
        header, facts = batch.header, self.facts
        count = check_records(batch, facts.path)
        last = header.base_offset + header.last_offset_delta
        facts.thinned |= (
            header.base_offset > facts.end
            or count <= header.last_offset_delta
            or bool(header.attributes & DELETE_HORIZON)
        )
        facts.max_timestamp = max(facts.max_timestamp, header.max_timestamp)
        said = self._index.pop(batch.position, None)
        if said is not None and said != last:
            at = batch.position
            self._wrong_index = f"says offset {said} at byte {at}, the batch there ends at {last}"
        self._meet_times(last)
        facts.end, facts.sound_bytes = last + 1, batch.position + len(batch.view)
        self._report.batches += 1
        self._report.records += count

    def _meet_times(self, last: int) -> None:
        newest = self.facts.max_timestamp
        while self._times and self._times[-1][1] <= last:
            timestamp, offset = self._times.pop()
            self._last_time = timestamp
            if timestamp != newest and self._wrong_time is None:
                self._wrong_time = (
                    f"says {timestamp} for offset {offset}, the greatest up to there is {newest}"
                )

    def _report_bad(self, bad: BadBatch) -> None:
        facts, trust = self.facts, self._trust
        rest = facts.size - bad.position
        text = f"at byte {bad.position}, after offset {facts.end - 1}: {bad.reason}"
        if self._report.live and trust.last and facts.end >= trust.durable:
            self._report.unchecked += rest
            self._report.remark(Kind.BATCH, facts.path, f"{text} ({rest} bytes, being written)")
        elif self._report.live and trust.last:
            text = f"{text}; {rest} bytes lie from there on"
            flushed = f"offsets below {trust.durable} were flushed"
            self._report.damage(Kind.BATCH, facts.path, f"{text}, and {flushed}")
        elif trust.torn_from is not None and facts.end >= trust.torn_from:
            text = f"{text}: a torn tail of {rest} bytes, which the next start cuts off"
            self._report.remark(Kind.BATCH, facts.path, text)
        else:
            self._report.damage(Kind.BATCH, facts.path, f"{text}; {rest} bytes lie from there on")

    def _finish(self) -> None:
        """Report index entries that match no batch, and missing indexes."""
        facts, trust = self.facts, self._trust
        if self._report.live and trust.last:
            return  # A running broker keeps recent index entries in memory.
        if facts.bad is None:
            self._find_unmet()
        for suffix, kind, wrong in (
            (file_names.INDEX, Kind.INDEX, self._wrong_index),
            (file_names.TIME_INDEX, Kind.TIME_INDEX, self._wrong_time),
        ):
            path = self._stem + suffix
            if wrong is not None:
                self._report.doubt(trust.beside, kind, path, wrong)
            elif facts.size and trust.beside and not self._disk.exists(path):
                text = f"is missing beside {facts.size} bytes of log"
                self._report.damage(kind, path, text)

    def _find_unmet(self) -> None:
        facts = self.facts
        if self._index and self._wrong_index is None:
            position, offset = next(iter(self._index.items()))
            self._wrong_index = f"says offset {offset} at byte {position}, where no batch begins"
        if self._times and self._wrong_time is None:
            timestamp, offset = self._times[-1]
            self._wrong_time = f"says {timestamp} for offset {offset}, which is not in the log"
        if (
            facts.max_timestamp > self._last_time
            and self._wrong_time is None
            and self._trust.beside
            and self._disk.exists(self._stem + file_names.TIME_INDEX)
        ):
            self._wrong_time = f"ends at {self._last_time}, the log at {facts.max_timestamp}"


def check_records(batch: Batch, path: str) -> int:
    """Decompress the batch and return its record count. BadBatch if it contradicts its header."""
    header = batch.header
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        codec = header.attributes & CODEC_MASK
        raise BadBatch(path, batch.position, f"codec {codec} does not exist")
    below, count = header.base_offset - 1, 0
    last = header.base_offset + header.last_offset_delta
    try:
        for record in records_of(batch.view):
            if not below < record.offset <= last:
                text = f"a record of offset {record.offset} between {below} and {last}"
                raise BadBatch(path, batch.position, text)
            below = record.offset
            count += 1
    except CorruptBatch as error:
        raise BadBatch(path, batch.position, f"its records do not unpack: {error}") from None
    if header.attributes & CONTROL and count > 1:
        raise BadBatch(path, batch.position, f"a control batch of {count} records")
    return count
