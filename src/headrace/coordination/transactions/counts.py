"""`TransactionCounts`: counters of ended transactions since the start."""

from dataclasses import dataclass

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus


@dataclass(slots=True)
class TransactionCounts:
    """Transactions coordinated here that have ended, without those that had no partitions."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    """Aborted transactions that exceeded their producer's timeout."""

    def ended(self, decided: TransactionState) -> None:
        """Count a transaction whose markers are written; `decided`: its state of PREPARE_…."""
        if not decided.partitions:
            return
        if decided.status is TransactionStatus.PREPARE_COMMIT:
            self.committed += 1
        else:
            self.aborted += 1
