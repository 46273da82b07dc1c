"""What DescribeTransactions and ListTransactions show (KIP-664)."""

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
    """Which transactions are asked for; nothing said means all."""

    statuses: frozenset[TransactionStatus]
    unknown: list[str]
    """Names of states there are none of."""
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
        """Make the filter a request asks for. With nothing but unknown states nothing is found."""
        known = frozenset(_BY_NAME[name] for name in states if name in _BY_NAME)
        unknown = [name for name in states if name not in _BY_NAME]
        wanted = known if states else frozenset(NAMES)
        return cls(wanted, unknown, frozenset(producer_ids), older_than_ms, matches)

    def takes(self, transactional_id: str, state: TransactionState, now_ms: int) -> bool:
        """Tell whether this transaction is asked for."""
        if state.status not in self.statuses:
            return False
        if self.producer_ids and state.producer_id not in self.producer_ids:
            return False
        if self.older_than_ms >= 0 and now_ms - state.started_ms <= self.older_than_ms:
            return False
        return self.matches(transactional_id)


def described(transactional_id: str, state: TransactionState) -> DescribedTransaction:
    """Return one transaction as the admin sees it."""
    return DescribedTransaction(
        transactional_id,
        NAMES[state.status],
        state.timeout_ms,
        state.started_ms,
        state.producer_id,
        state.epoch,
        sorted(state.partitions),
    )
