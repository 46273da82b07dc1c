"""`Latest`: the last record of each key, which is all that a replay of a compacted topic needs.

Most records of a log that is not compacted yet are superseded. They are dropped by their keys'
bytes, so that only the last records are decoded and applied.
"""

from itertools import chain
from typing import NamedTuple


class Kept(NamedTuple):
    """The last record of a key, with its offset in the log."""

    log_offset: int
    producer_id: int | None
    """Producer of the open transaction that wrote it; None: committed or not transactional."""
    key: bytes
    value: bytes | None


class Latest:
    """Keeps the last record of each key of a log, read in order. Implements `loader.Replayed`."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Kept] = {}
        self._open: dict[int, dict[bytes, Kept]] = {}
        """Records of open transactions by producer id: a commit marker keeps them, an abort drops
        them."""

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        """Keep this record in place of its key's earlier ones; a tombstone drops those of open
        transactions too."""
        name = key or b""
        record = Kept(log_offset, producer_id, name, value)
        if producer_id is not None:
            self._open.setdefault(producer_id, {})[name] = record
            return
        # Reinserted, so that the dict is nearly in offset order and sorting it is cheap.
        self._kept.pop(name, None)
        self._kept[name] = record
        if value is None:
            for pending in self._open.values():
                pending.pop(name, None)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """End a transaction: keep its committed records, except superseded ones."""
        for name, record in self._open.pop(producer_id, {}).items():
            before = self._kept.get(name)
            if committed and (before is None or before.log_offset < record.log_offset):
                self._kept[name] = record._replace(producer_id=None)

    def records(self) -> list[Kept]:
        """Return the kept records in the log's order, those of open transactions included."""
        return sorted(
            chain(self._kept.values(), *(records.values() for records in self._open.values()))
        )
