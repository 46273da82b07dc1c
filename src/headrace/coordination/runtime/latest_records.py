"""The last record of each key: all that a compacted topic says.

Of a log that was not compacted yet most records are superseded. They are passed over by their keys'
bytes, so that a replay decodes and applies what counts and its length is that of the state.
"""

from itertools import chain
from typing import NamedTuple


class Kept(NamedTuple):
    """A record that nothing in the log supersedes."""

    log_offset: int
    producer_id: int | None
    """Of a transaction that has not ended."""
    key: bytes
    value: bytes | None


class Latest:
    """Takes the records of a log in its order (`loader.Replayed`)."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Kept] = {}
        self._open: dict[int, dict[bytes, Kept]] = {}
        """By producer: what its transaction's marker lets count, or drops."""

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        """Supersede what was said of `key`; a tombstone does so in the open transactions too."""
        name = key or b""
        record = Kept(log_offset, producer_id, name, value)
        if producer_id is not None:
            self._open.setdefault(producer_id, {})[name] = record
            return
        # In the order of the last ones, so that there is next to nothing to sort in the end.
        self._kept.pop(name, None)
        self._kept[name] = record
        if value is None:
            for pending in self._open.values():
                pending.pop(name, None)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """Keep what the transaction wrote where it was written, or never."""
        for name, record in self._open.pop(producer_id, {}).items():
            before = self._kept.get(name)
            if committed and (before is None or before.log_offset < record.log_offset):
                self._kept[name] = record._replace(producer_id=None)

    def records(self) -> list[Kept]:
        """Return what counts, in the log's order."""
        return sorted(
            chain(self._kept.values(), *(records.values() for records in self._open.values()))
        )
