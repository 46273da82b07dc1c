"""Batches of aborted transactions in a Fetch response, which read_committed readers skip."""

from collections.abc import Sequence

from headrace.record.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    ControlType,
    next_offset,
    parse_control,
    records,
)

Aborted = Sequence[tuple[int, int]]
"""Producer id and first offset of each aborted transaction in a Fetch response."""


class AbortedTransactions:
    """Tracks the aborted transactions of one Fetch response. Pass batches in offset order.

    A producer's batches are skipped from the transaction's first offset to its abort marker.
    """

    def __init__(self, aborted: Aborted) -> None:
        self._to_come = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def leave_out(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether read_committed readers must skip the batch."""
        last_offset = next_offset(header) - 1
        while self._to_come and self._to_come[-1][1] <= last_offset:
            self._open.add(self._to_come.pop()[0])
        if header.attributes & CONTROL:
            self._close(header, batch)
            return True
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._open

    def _close(self, header: BatchHeader, batch: memoryview) -> None:
        if header.producer_id not in self._open or not header.record_count:
            return
        for record in records(batch):
            if parse_control(record).type is ControlType.ABORT:
                self._open.discard(header.producer_id)


NONE_ABORTED = AbortedTransactions(())
