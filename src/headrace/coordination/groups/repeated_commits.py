"""OffsetCommits that a member repeats with the same partitions and metadata.

Only offsets and leader epochs change from request to request, so keys and the fixed part of each
value are encoded once. The written records equal those of `records`.
"""

from collections.abc import Sequence
from itertools import chain, repeat

from headrace.coordination.groups import records
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.coordination.groups.messages import CommitRequest
from headrace.shards.journal import KeyValue

_RECORD_BYTES = 60
"""Upper bound of a record's size in bytes apart from its key and metadata."""
_new = tuple.__new__


class RepeatedCommit:
    """The fixed part of repeated OffsetCommits, encoded once."""

    __slots__ = ("_metadata", "_records", "places", "record_bytes", "request")

    def __init__(self, request: CommitRequest) -> None:
        """Prepare for commits like `request`, which must not set a retention time of its own."""
        self.request = request
        group_id = request.group_id
        self.places: list[Place] = [
            (group_id, topic, partition) for topic, partition, *_ in request.offsets
        ]
        self._metadata = [offset.metadata for offset in request.offsets]
        # A packer for each distinct metadata text; mostly all are equal and empty.
        packers = {
            metadata: records.offset_packer(metadata) for metadata in dict.fromkeys(self._metadata)
        }
        self._records = [
            (records.offset_key(place), packers[metadata])
            for place, metadata in zip(self.places, self._metadata, strict=True)
        ]
        self.record_bytes = sum(
            len(key) + len(metadata.encode()) + _RECORD_BYTES
            for (key, _), metadata in zip(self._records, self._metadata, strict=True)
        )
        """Upper estimate of the size in bytes of one commit's records."""

    def written(
        self, offsets: Sequence[int], leader_epochs: Sequence[int], now_ms: int
    ) -> tuple[list[tuple[Place, Committed]], list[KeyValue]]:
        """Return the resulting committed offsets and the records of all repeated commits.

        `offsets` and `leader_epochs` hold one value for each place, commit by commit; the last
        commit's offsets count.
        """
        count = len(self.places)
        each = chain.from_iterable(repeat(self._records, len(offsets) // count))
        written: list[KeyValue] = [
            (key, pack(offset, epoch, now_ms))
            for (key, pack), offset, epoch in zip(each, offsets, leader_epochs, strict=True)
        ]
        changes: list[tuple[Place, Committed]] = [
            (place, _new(Committed, (offset, epoch, metadata, now_ms, -1, -1)))
            for place, metadata, offset, epoch in zip(
                self.places, self._metadata, offsets[-count:], leader_epochs[-count:], strict=True
            )
        ]
        return changes, written
