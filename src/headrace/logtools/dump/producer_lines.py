"""Producer snapshots and transaction indexes in DumpLogSegments' format."""

from headrace.log.producers.producer_snapshot import SnapshotEntry
from headrace.log.segment.transaction_index import AbortedTransaction

SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequence numbers wrap to 0 after this one."""


def optional(value: int | None) -> str:
    """Format an optional number as Java prints an OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def producer_line(entry: SnapshotEntry) -> str:
    """Format a producer of a snapshot."""
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {optional(first if first >= 0 else None)} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return line
    first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MASK
    return line + (
        f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
        f"timestamp: {entry.timestamp}"
    )


def aborted_line(entry: AbortedTransaction) -> str:
    """Format an entry of a transaction index."""
    return (
        f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
    )
