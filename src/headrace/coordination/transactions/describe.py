"""Results of DescribeTransactions and ListTransactions (KIP-664)."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

NAMES: dict[TransactionStatus, str] = {
    TransactionStatus.EMPTY: "Empty",
    TransactionStatus.ONGOING: "Ongoing",
    TransactionStatus.PREPARE_COMMIT: "PrepareCommit",
    TransactionStatus.PREPARE_ABORT: "PrepareAbort",
    TransactionStatus.COMPLETE_COMMIT: "CompleteCommit",
    TransactionStatus.COMPLETE_ABORT: "CompleteAbort",
    TransactionStatus.DEAD: "Dead",
    TransactionStatus.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
_BY_NAME = {name: status for status, name in NAMES.items()}


class DescribedTransaction(NamedTuple):
    transactional_id: str
    status: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    epoch: int
    partitions: list[TopicPartition]


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    status: str


class Filter(NamedTuple):
    """The filters of a ListTransactions request; an empty one matches all."""

    statuses: frozenset[TransactionStatus]
    unknown: list[str]
    """Requested status names that do not exist."""
    producer_ids: frozenset[int]
    older_than_ms: int
    matches: Callable[[str], bool]

    @classmethod
    def of(
        cls,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        older_than_ms: int = -1,
        matches: Callable[[str], bool] = lambda _: True,
    ) -> "Filter":
        """Return the filter of a request. With unknown statuses only, no transaction matches."""
        known = frozenset(_BY_NAME[name] for name in states if name in _BY_NAME)
        unknown = [name for name in states if name not in _BY_NAME]
        wanted = known if states else frozenset(NAMES)
        return cls(wanted, unknown, frozenset(producer_ids), older_than_ms, matches)

    def takes(self, transactional_id: str, state: TransactionState, now_ms: int) -> bool:
        """Return whether a transaction matches."""
        if state.status not in self.statuses:
            return False
        if self.producer_ids and state.producer_id not in self.producer_ids:
            return False
        if self.older_than_ms >= 0 and now_ms - state.started_ms <= self.older_than_ms:
            return False
        return self.matches(transactional_id)


def described(transactional_id: str, state: TransactionState) -> DescribedTransaction:
    """Return one transaction as DescribeTransactions shows it."""
    return DescribedTransaction(
        transactional_id,
        NAMES[state.status],
        state.timeout_ms,
        state.started_ms,
        state.producer_id,
        state.epoch,
        sorted(state.partitions),
    )
