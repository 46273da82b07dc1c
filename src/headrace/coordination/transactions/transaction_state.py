"""`TransactionState`: one transactional id's state as an immutable value, with its transitions.

EMPTY ─► ONGOING ─┬─► PREPARE_COMMIT ─► COMPLETE_COMMIT ─► EMPTY, ONGOING, PREPARE_ABORT
  └───────────────┴─► PREPARE_ABORT ──► COMPLETE_ABORT ──► EMPTY, ONGOING, PREPARE_ABORT
"""

from typing import Any, NamedTuple

from headrace.coordination.transactions.producers import NO_EPOCH, TV2, ProducerEpoch
from headrace.model.invariant import invariant
from headrace.model.nouns import NO_PRODUCER_ID, TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

EPOCH_LAST = (1 << 15) - 2
"""Last epoch that a client may use. The next one is reserved, so that the last can be fenced."""

NO_TIMEOUT_MS = (1 << 31) - 1
"""Timeout of a two-phase-commit transaction (KIP-939), which never times out: its end is decided by
an external coordinator."""

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
"""The statuses that may follow each status."""

DECIDED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Statuses of a transaction whose end is decided and whose markers are being written."""
IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""Statuses without a transaction."""


class TransactionState(NamedTuple):
    """The state of one transactional id. Times are in milliseconds since 1970; -1: unset."""

    producer_id: int
    epoch: int
    timeout_ms: int
    status: TransactionStatus = _S.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    updated_ms: int = -1
    last_epoch: int = NO_EPOCH
    """The previous epoch, if its holder may have missed the change; NO_EPOCH: it is fenced."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """Producer id from the completion on, if it changes: the epochs of the present one are used up,
    or the transaction was kept."""
    client_version: int = 0
    """Transaction version of the client that caused the last transition."""
    next_epoch: int = NO_EPOCH
    """With `next_producer_id`: the epoch of the producer that may end a kept transaction (KIP-939),
    or that continues after its end. The markers have `producer_id` and `epoch`. NO_EPOCH: not
    kept."""

    def to(self, status: TransactionStatus, now_ms: int, **changes: Any) -> "TransactionState":  # noqa: ANN401
        """Return the state after a transition that `NEXT` permits. InvariantError: any other."""
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
        """Whether the transaction was kept: a later producer epoch ends it (KIP-939)."""
        return self.next_epoch != NO_EPOCH

    @property
    def client(self) -> ProducerEpoch:
        """The producer id and epoch that requests for this transactional id must have."""
        if self.kept:
            return ProducerEpoch(self.next_producer_id, self.next_epoch)
        return ProducerEpoch(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a client."""
        return self.epoch >= EPOCH_LAST

    @property
    def bumps(self) -> bool:
        """Whether the producer gets a new epoch for each transaction (KIP-890)."""
        return self.client_version >= TV2
