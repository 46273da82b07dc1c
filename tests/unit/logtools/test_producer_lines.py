"""Producers and aborted transactions as DumpLogSegments prints them, with and without a batch."""

from headrace.log.producers.producer_snapshot import SnapshotEntry
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.logtools.dump.producer_lines import aborted_line, optional, producer_line
from headrace.model.nouns import Offset


def test_a_producer_is_shown_with_its_last_batch_where_one_is_known() -> None:
    entry = SnapshotEntry(7, 2, 1, 0, 3, 99, 5, 0)
    assert producer_line(entry) == (
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong[0] "
        "lastTimestamp: 99 firstSequence: 2147483646 lastSequence: 1 lastOffset: 0 offsetDelta: 3 "
        "timestamp: 99"
    )
    assert producer_line(entry._replace(last_offset=-1, current_txn_first_offset=-1)) == (
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: 5 "
        "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 99"
    )
    assert (optional(None), optional(4)) == ("OptionalLong.empty", "OptionalLong[4]")


def test_an_aborted_transaction_is_shown_with_its_version() -> None:
    assert aborted_line(AbortedTransaction(1, Offset(2), Offset(3), Offset(4))) == (
        "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    )
