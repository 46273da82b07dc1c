"""The limits of transactions, by Kafka's configuration names."""

from dataclasses import dataclass
from typing import Protocol


class TransactionConfig(Protocol):
    """The keys of `config.broker.BrokerConfig` that speak of transactions."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_num_partitions: int
    transactional_ids_max: int


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Times in milliseconds. Defaults are Kafka 4.3's."""

    max_timeout_ms: int = 900_000
    """transaction.max.timeout.ms: an InitProducerId that asks for more is refused."""
    id_expiration_ms: int = 7 * 86_400_000
    """transactional.id.expiration.ms: an id unused for that long is forgotten."""
    timeout_check_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms."""
    expiration_check_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms."""
    partitions: int = 50
    """transaction.state.log.num.partitions: counts only until `__transaction_state` exists."""
    ids_max: int = 1_000_000
    """transactional.ids.max (ours): one more than that is refused."""
    append_timeout_ms: int = 30_000
    """Our own: how long an append may take before it counts as late."""
    wait_ms: int = 1_000
    """Our own: how long a request waits for the markers of the transaction before. Then it gets
    CONCURRENT_TRANSACTIONS, at which clients ask again."""
    waiting_max: int = 100
    """Our own: requests that wait so for one transactional id."""
    marker_retry_ms: int = 100
    """Our own: when a marker that could not be written is tried again."""

    @classmethod
    def of(cls, config: TransactionConfig) -> "TransactionLimits":
        """The limits a configuration sets."""
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            timeout_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            partitions=config.transaction_state_log_num_partitions,
            ids_max=config.transactional_ids_max,
        )
