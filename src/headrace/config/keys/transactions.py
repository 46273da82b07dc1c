"""Keys of transactions and their log."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import INT_MAX, Kind, Mode


class TransactionKeys(Keys):
    """Transactions, transactional ids and their topic."""

    transaction_state_log_num_partitions = key(
        Kind.INT, 50, "Partitions of __transaction_state, fixed when it is made.", at_least=1
    )
    transaction_state_log_replication_factor = key(
        Kind.SHORT,
        3,
        "Replicas of __transaction_state, fewer where there are fewer brokers.",
        at_least=1,
    )
    transaction_state_log_segment_bytes = key(
        Kind.INT, 104_857_600, "Segment size of __transaction_state.", at_least=1
    )
    transaction_state_log_min_isr = key(
        Kind.INT,
        2,
        "Replicas of __transaction_state that must be in sync, at most as many as it has.",
        between=(1, INT_MAX),
    )
    transaction_max_timeout_ms = key(
        Kind.INT,
        900_000,
        "The longest time a transactional producer may ask its transactions to take.",
        at_least=1,
    )
    transactional_id_expiration_ms = key(
        Kind.INT,
        604_800_000,
        "A transactional id without a transaction for this long is forgotten.",
        at_least=1,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = key(
        Kind.INT,
        10_000,
        "How often transactions that take too long are looked for, to be aborted.",
        at_least=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = key(
        Kind.INT,
        3_600_000,
        "How often transactional ids nobody uses any more are looked for.",
        at_least=1,
    )
    transaction_partition_verification_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether a transaction's coordinator is asked before a partition takes its first batch.",
        mode=Mode.CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether transactions that never time out are allowed (KIP-939): another coordinates them."
        " One that nobody ends keeps readers of committed data waiting for ever.",
    )
    transactional_ids_max = key(
        Kind.INT,
        1_000_000,
        "Transactional ids that are remembered; a new one beyond is refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
