"""Too large a share of refused records means another schema, and ends the query.

The share is that of a topic's last `records_min` records, over as many batches as that takes. Only
batches that refuse a record are noted; the offsets between two of them count as accepted records.
Notes are lost without harm: counting then starts again.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.spark.durable import replace_file
from headrace.spark.errors import TooManyRefusedError
from headrace.spark.quarantine.manifest import Refusals
from headrace.spark.quarantine.refused import CHECK

_FILE = "recent.json"


class _Noted(NamedTuple):
    """A batch of a topic that refused records."""

    batch: int
    schema: str
    begins: dict[str, int]
    """First offset by partition."""
    ends: dict[str, int]
    read: int
    refused: int


class RecentRefusals:
    """The last batches of a query that refused records, by topic, in a file."""

    def __init__(self, directory: Path, share_max: float, records_min: int) -> None:
        self._file = directory / _FILE
        self._share_max = share_max
        self._records_min = records_min

    def check(self, batch: int, topics: Sequence[Refusals]) -> None:
        """Raise TooManyRefusedError if a topic's share is too large with this batch."""
        noted = self._noted()
        for refusals in topics:
            window = [*_before(noted, batch, refusals), _note(batch, refusals)]
            _, read, refused = _last(window, self._records_min)
            if read >= self._records_min and refused > read * self._share_max:
                raise TooManyRefusedError(self._words(batch, refusals, read, refused))

    def add(self, batch: int, topics: Sequence[Refusals]) -> None:
        """Note a batch that was written. Raises OSError."""
        noted = self._noted()
        for refusals in topics:
            window = [*_before(noted, batch, refusals), _note(batch, refusals)]
            count, _, _ = _last(window, self._records_min)
            noted[refusals.topic] = window[-count:]
        replace_file(self._file.parent, self._file, json.dumps(noted).encode())

    def _noted(self) -> dict[str, list[_Noted]]:
        try:
            stored = json.loads(self._file.read_text())
            return {topic: [_Noted(*each) for each in notes] for topic, notes in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _words(self, batch: int, refusals: Refusals, read: int, refused: int) -> str:
        first = refusals.first
        advice = (
            "Correct the check, or raise quarantineShareMax"
            if first.stage == CHECK
            else "These may be records of another schema: correct valueSchema, or raise"
            " quarantineShareMax"
        )
        return (
            f"too many records are refused: {refused:,} of the last {read:,} records of topic"
            f" {refusals.topic} ({refused / read:.1%}), the first of batch {batch} is"
            f" {first.place}: {first.reason}. Nothing of the batch is written. {advice}"
        )


def _note(batch: int, refusals: Refusals) -> _Noted:
    begins = {str(partition): begin for partition, begin, _ in refusals.planned}
    ends = {str(partition): end for partition, _, end in refusals.planned}
    return _Noted(batch, refusals.schema, begins, ends, refusals.read, refusals.refused)


def _before(noted: dict[str, list[_Noted]], batch: int, refusals: Refusals) -> list[_Noted]:
    """Return the noted batches of the topic before this one, of the same schema."""
    return [
        note
        for note in noted.get(refusals.topic, ())
        if note.batch < batch and note.schema == refusals.schema
    ]


def _last(window: Sequence[_Noted], records_min: int) -> tuple[int, int, int]:
    """Return the last batches that have `records_min` records: how many, read and refused ones."""
    count = read = refused = 0
    for accepted, note in _backwards(window):
        read += accepted
        if read >= records_min:
            break
        count, read, refused = count + 1, read + note.read, refused + note.refused
        if read >= records_min:
            break
    return count, read, refused


def _backwards(window: Sequence[_Noted]) -> Iterator[tuple[int, _Noted]]:
    """Yield each noted batch, the last first, with the number of offsets up to the next one."""
    following: _Noted | None = None
    for note in reversed(window):
        accepted = 0
        if following is not None:
            accepted = sum(
                max(0, following.begins[partition] - end)
                for partition, end in note.ends.items()
                if partition in following.begins
            )
        yield accepted, note
        following = note
