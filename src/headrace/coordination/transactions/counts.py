"""What has become of transactions since the start."""

from dataclasses import dataclass

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus


@dataclass(slots=True)
class TransactionCounts:
    """Of all transactions coordinated here; those that reached no partition are not counted."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    """Of the aborted ones, those that took longer than their producer had said."""

    def ended(self, decided: TransactionState) -> None:
        """Count what was decided so, once it has its markers everywhere."""
        if not decided.partitions:
            return
        if decided.status is TransactionStatus.PREPARE_COMMIT:
            self.committed += 1
        else:
            self.aborted += 1
