"""A transaction's state: one immutable value, and which may follow which."""

from typing import Any, NamedTuple

from headrace.coordination.transactions.producers import NO_EPOCH, TV2, ProducerEpoch
from headrace.model.invariant import invariant
from headrace.model.nouns import NO_PRODUCER_ID, TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

EPOCH_LAST = (1 << 15) - 2
"""The last epoch a client may use. The one behind it is kept, so that it can always be fenced."""

NO_TIMEOUT_MS = (1 << 31) - 1
"""The timeout of a transaction that never times out (KIP-939): somebody else coordinates it."""

_S = TransactionStatus

NEXT: dict[TransactionStatus, frozenset[TransactionStatus]] = {
    # An empty transaction is aborted by transaction version 2 alone: it moves the epoch on.
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
}
"""Which status may follow which."""

DECIDED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Its end is settled, its markers are under way."""
IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is under way."""


class TransactionState(NamedTuple):
    """What is known of one transactional id. Times in milliseconds since 1970, or -1."""

    producer_id: int
    epoch: int
    timeout_ms: int
    status: TransactionStatus = _S.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    last_epoch: int = NO_EPOCH
    """The epoch before this one, where its holder may have missed that it was moved on."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id after the markers, where the epochs of this one are used up."""
    client_version: int = 0
    """Transaction version of who moved it here."""
    next_epoch: int = NO_EPOCH
    """With `next_producer_id`: who may end a transaction that was kept (KIP-939), or who the
    producer is after its end. The markers are those of `producer_id` and `epoch`."""

    def to(self, status: TransactionStatus, now_ms: int, **changes: Any) -> "TransactionState":  # noqa: ANN401
        """Return the next state, which the table must allow."""
        invariant(status in NEXT[self.status], f"{self.status.name} to {status.name}")
        changes.setdefault("client_version", self.client_version)
        return self._replace(
            status=status,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )

    @property
    def kept(self) -> bool:
        """Whether another producer than the one that wrote it ends, or has ended, it (KIP-939)."""
        return self.next_epoch != NO_EPOCH

    @property
    def client(self) -> ProducerEpoch:
        """Who may speak for the transactional id."""
        if self.kept:
            return ProducerEpoch(self.next_producer_id, self.next_epoch)
        return ProducerEpoch(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        """Whether the producer id has no epoch left for a client."""
        return self.epoch >= EPOCH_LAST

    @property
    def bumps(self) -> bool:
        """Whether whoever moved it here gets a new epoch with every transaction."""
        return self.client_version >= TV2
