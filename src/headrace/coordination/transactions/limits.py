"""The limits of transactions, as the configuration sets them."""

from typing import Final

from headrace.config.keys.transactions import TransactionKeys


class TransactionLimits:
    """Limits of one configuration. Times in milliseconds; what keys mean is told with them."""

    append_timeout_ms: Final = 30_000
    """Our own: how long an append may take before it counts as late."""
    wait_ms: Final = 1_000
    """Our own: how long a request waits for the markers of the transaction before. Then it gets
    CONCURRENT_TRANSACTIONS, at which clients ask again."""
    waiting_max: Final = 100
    """Our own: requests that wait so for one transactional id."""
    marker_retry_ms: Final = 100
    """Our own: when a marker that could not be written is tried again."""

    def __init__(self, config: TransactionKeys) -> None:
        self.max_timeout_ms = config.transaction_max_timeout_ms
        self.id_expiration_ms = config.transactional_id_expiration_ms
        self.timeout_check_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self.expiration_check_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.partitions = config.transaction_state_log_num_partitions
        """Counts only until `__transaction_state` exists."""
        self.ids_max = config.transactional_ids_max
        self.two_phase_commit = config.transaction_two_phase_commit_enable
