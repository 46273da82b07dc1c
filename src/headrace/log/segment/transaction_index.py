"""`.txnindex`: the aborted transactions whose end lies in a segment.

34-byte entries: i16 version 0, i64 producer id, i64 first offset, i64 last offset (of the marker),
i64 last stable offset after it. The file exists only where there is an entry (Kafka makes it late).
"""

from struct import Struct
from typing import NamedTuple

from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset
from headrace.ports.disk import Disk, DiskFile

ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One aborted transaction: readers of committed data leave its records out."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Offset of the abort marker."""
    last_stable_offset: Offset
    """The log's last stable offset once this was decided; ends the search for older ones."""


def read_entries(content: bytes, path: str) -> list[AbortedTransaction]:
    """Read a `.txnindex`; CorruptLogError where it is none."""
    if len(content) % ENTRY.size:
        raise CorruptLogError(f"{path}: {len(content)} bytes are no whole entries")
    found: list[AbortedTransaction] = []
    for version, producer_id, first, last, stable in ENTRY.iter_unpack(content):
        if version != 0 or first >= last:
            raise CorruptLogError(f"{path}: entry {len(found)} makes no sense")
        found.append(AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable)))
    return found


class TxnIndex:
    """The aborted transactions of one segment, loaded when first asked for."""

    __slots__ = ("_disk", "_entries", "_file", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._entries: list[AbortedTransaction] | None = None
        self._file: DiskFile | None = None
        self.path = path

    @property
    def entries(self) -> list[AbortedTransaction]:
        """In the order of their markers. CorruptLogError where the file is no such index."""
        if self._entries is None:
            content = b""
            if self._disk.exists(self.path):
                file = self._disk.open(self.path, writable=False)
                try:
                    content = file.read(0, file.size())
                finally:
                    file.close()
            self._entries = read_entries(content, self.path)
        return self._entries

    def check(self, base_offset: int, limit: int) -> None:
        """Raise CorruptLogError where the file cannot be of a segment with offsets in these bounds.

        A missing or a shortened one cannot be told from one of a segment with fewer aborts.
        """
        for entry in self.entries:
            if not base_offset <= entry.last_offset < limit:
                raise CorruptLogError(f"{self.path}: a marker at {entry.last_offset}")

    def append(self, *aborted: AbortedTransaction) -> None:
        """Add entries behind all others, in one write."""
        if not aborted:
            return
        entries = self.entries
        packed = b"".join(ENTRY.pack(0, *entry) for entry in aborted)
        self._open().write_at(len(entries) * ENTRY.size, (packed,))
        entries.extend(aborted)

    def reset(self, keep_below: int = 0) -> None:
        """Keep only the entries whose marker lies below the offset `keep_below`."""
        try:
            kept = [entry for entry in self.entries if entry.last_offset < keep_below]
        except CorruptLogError:
            kept = []
        self._entries = kept
        if self._disk.exists(self.path):
            self._open().truncate(len(kept) * ENTRY.size)

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    @property
    def open_file(self) -> DiskFile | None:
        """The file if something was written to it: it belongs to the next flush."""
        return self._file

    def close(self) -> None:
        """Close the file; entries stay usable."""
        if self._file is not None:
            self._file.close()
            self._file = None
