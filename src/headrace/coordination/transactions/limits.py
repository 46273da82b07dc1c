"""`TransactionLimits`: the limits of transactions that a configuration sets."""

from typing import Final

from headrace.config.keys.transactions import TransactionKeys


class TransactionLimits:
    """Limits of one configuration; times in milliseconds. `config/keys` documents them."""

    append_timeout_ms: Final = 30_000
    """Milliseconds after which an append counts as late. Not configurable."""
    wait_ms: Final = 1_000
    """Milliseconds that a request waits for the markers of the previous transaction. Then it ends
    with CONCURRENT_TRANSACTIONS, which clients retry. Not configurable."""
    waiting_max: Final = 100
    """Requests that may wait so for one transactional id. Not configurable."""
    marker_retry_ms: Final = 100
    """Milliseconds before a marker that could not be written is retried. Not configurable."""

    def __init__(self, config: TransactionKeys) -> None:
        self.max_timeout_ms = config.transaction_max_timeout_ms
        self.id_expiration_ms = config.transactional_id_expiration_ms
        self.timeout_check_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self.expiration_check_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.partitions = config.transaction_state_log_num_partitions
        """Partitions of `__transaction_state`; used only until the topic exists."""
        self.ids_max = config.transactional_ids_max
        self.two_phase_commit = config.transaction_two_phase_commit_enable
