"""Decide which batches of aborted transactions and which markers compaction may remove.

As Kafka's CleanedTransactionMetadata; batches must come in offset order. A marker, and an aborted
transaction's `.txnindex` entry, remain as long as a batch of the transaction was seen.
"""

from collections.abc import Callable, Iterable

from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.record.batch import TRANSACTIONAL, BatchHeader, ControlType, parse_control, records


class Transactions:
    """The transactions open at the current offset of a compaction, and whether records remain."""

    __slots__ = ("_aborted", "_committed", "_observed", "_ongoing", "keep")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Make a tracker of transactions; `aborted` lists all aborted ones that overlap the
        batches."""
        self._aborted = sorted(
            aborted, key=lambda transaction: transaction.first_offset, reverse=True
        )
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self.keep: Callable[[AbortedTransaction], None] | None = None
        """Called with each aborted transaction that the new `.txnindex` needs; None in the first
        pass."""

    def _consume(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            entry = self._aborted.pop()
            self._ongoing.setdefault(entry.producer_id, entry)

    def may_go(self, header: BatchHeader) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        self._consume(header.base_offset + header.last_offset_delta)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._ongoing:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def marker_may_go(self, header: BatchHeader, view: memoryview) -> bool:
        """Return whether a control batch ends a transaction without remaining batches."""
        self._consume(header.base_offset + header.last_offset_delta)
        record = next(iter(records(view)), None) if header.record_count else None
        if record is None:
            return True  # emptied by an earlier compaction
        kind = parse_control(record).type
        producer_id = header.producer_id
        if kind is ControlType.COMMIT:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        if kind is not ControlType.ABORT:
            return False
        entry = self._ongoing.pop(producer_id, None)
        if entry is None or producer_id not in self._observed:
            return True
        self._observed.discard(producer_id)
        if self.keep is not None:
            self.keep(entry)
        return False
