"""Which batches of aborted transactions, and which markers, a compaction may leave out.

Kafka's CleanedTransactionMetadata. Feed batches in offset order. A marker stays until no batch of
its transaction was seen; an aborted transaction's entry in the `.txnindex` stays as long as that.
"""

from collections.abc import Callable, Iterable

from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.record.batch import TRANSACTIONAL, BatchHeader, ControlType, parse_control, records


class Transactions:
    """What has been seen of the transactions under way."""

    __slots__ = ("_aborted", "_committed", "_observed", "_ongoing", "keep")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: all that overlap what will be fed."""
        self._aborted = sorted(
            aborted, key=lambda transaction: transaction.first_offset, reverse=True
        )
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self.keep: Callable[[AbortedTransaction], None] | None = None
        """Told of the entries that the new `.txnindex` needs."""

    def _consume(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            entry = self._aborted.pop()
            self._ongoing.setdefault(entry.producer_id, entry)

    def may_go(self, header: BatchHeader) -> bool:
        """Tell whether a batch of data belongs to an aborted transaction."""
        self._consume(header.base_offset + header.last_offset_delta)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._ongoing:
            self._observed.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def marker_may_go(self, header: BatchHeader, view: memoryview) -> bool:
        """Tell whether a control batch ends a transaction of which nothing is left."""
        self._consume(header.base_offset + header.last_offset_delta)
        record = next(iter(records(view)), None) if header.record_count else None
        if record is None:
            return True  # emptied before
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
