"""Commits that a member makes again and again: of the same partitions, with the same words.

Only offsets and leader epochs change from one to the next, so the rest of their records is made
once. What is written is what `records` would write for each of them by itself.
"""

from collections.abc import Sequence
from itertools import chain, repeat

from headrace.coordination.groups import records
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.coordination.groups.messages import CommitRequest
from headrace.coordination.runtime.journal import KeyValue

_RECORD_BYTES = 60
"""What a record takes beside its key and its metadata, at most."""
_new = tuple.__new__


class RepeatedCommit:
    """What such commits have in common."""

    __slots__ = ("_metadata", "_records", "places", "record_bytes", "request")

    def __init__(self, request: CommitRequest) -> None:
        """`request` is any one of them, without a retention time of its own."""
        self.request = request
        group_id = request.group_id
        self.places: list[Place] = [
            (group_id, topic, partition) for topic, partition, *_ in request.offsets
        ]
        self._metadata = [offset.metadata for offset in request.offsets]
        # One for each note, which mostly is the same for all, and empty.
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
        """About what the records of one commit take in the log, rather more."""

    def written(
        self, offsets: Sequence[int], leader_epochs: Sequence[int], now_ms: int
    ) -> tuple[list[tuple[Place, Committed]], list[KeyValue]]:
        """Return what commits of these offsets come to, and the records that say each of them.

        As many offsets as there are places, once for each commit: the last commit's count.
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
