"""The `.txnindex` file: the aborted transactions whose markers are in a segment.

    34 bytes, big-endian, ordered by marker:
    i16 version 0 | i64 producer id | i64 first offset | i64 last offset | i64 last stable offset

The last offset is the marker's. The file exists only if it has an entry, as in Kafka.
"""

from struct import Struct
from typing import NamedTuple

from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset
from headrace.ports.disk import Disk, DiskFile

ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction, whose records read_committed consumers skip."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Offset of the abort marker."""
    last_stable_offset: Offset
    """The log's last stable offset after the abort; ends the search for older transactions."""


def read_entries(content: bytes, path: str) -> list[AbortedTransaction]:
    """Decode a `.txnindex`; CorruptLogError if it is invalid."""
    if len(content) % ENTRY.size:
        raise CorruptLogError(f"{path}: {len(content)} bytes are not whole entries")
    found: list[AbortedTransaction] = []
    for version, producer_id, first, last, stable in ENTRY.iter_unpack(content):
        if version != 0 or first >= last:
            raise CorruptLogError(f"{path}: entry {len(found)} is invalid")
        found.append(AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable)))
    return found


class TxnIndex:
    """The `.txnindex` of one segment, loaded at first use."""

    __slots__ = ("_disk", "_entries", "_file", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._entries: list[AbortedTransaction] | None = None
        self._file: DiskFile | None = None
        self.path = path

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The aborted transactions, ordered by their markers. CorruptLogError if the file is
        invalid."""
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
        """Raise CorruptLogError if an entry's marker lies outside of [base_offset, limit).

        A missing or shortened file cannot be detected: a segment may have fewer aborts.
        """
        for entry in self.entries:
            if not base_offset <= entry.last_offset < limit:
                raise CorruptLogError(f"{self.path}: no offset {entry.last_offset} in the segment")

    def append(self, *aborted: AbortedTransaction) -> None:
        """Append entries to the file in one write."""
        if not aborted:
            return
        entries = self.entries
        packed = b"".join(ENTRY.pack(0, *entry) for entry in aborted)
        self._open().write_at(len(entries) * ENTRY.size, (packed,))
        entries.extend(aborted)

    def reset(self, keep_below: int = 0) -> None:
        """Keep only the entries whose marker has an offset below `keep_below`."""
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
        """The open file if it was written to, for the next flush; else None."""
        return self._file

    def close(self) -> None:
        """Close the file; the entries stay usable."""
        if self._file is not None:
            self._file.close()
            self._file = None
