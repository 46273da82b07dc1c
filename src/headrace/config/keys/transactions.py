"""Keys of transactions and their log."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import INT_MAX, Kind, Mode


class TransactionKeys(Keys):
    """Transactions, transactional ids and their topic."""

    transaction_state_log_num_partitions = key(
        Kind.INT, 50, "Partitions of __transaction_state, fixed when it is created.", at_least=1
    )
    transaction_state_log_replication_factor = key(
        Kind.SHORT,
        3,
        "Replicas of __transaction_state, at most the number of brokers.",
        at_least=1,
    )
    transaction_state_log_segment_bytes = key(
        Kind.INT, 104_857_600, "Segment size of __transaction_state.", at_least=1
    )
    transaction_state_log_min_isr = key(
        Kind.INT,
        2,
        "Replicas of __transaction_state that must be in sync, at most its number of replicas.",
        between=(1, INT_MAX),
    )
    transaction_max_timeout_ms = key(
        Kind.INT,
        900_000,
        "The longest transaction timeout that a producer may request.",
        at_least=1,
    )
    transactional_id_expiration_ms = key(
        Kind.INT,
        604_800_000,
        "The state of a transactional id without a transaction for this long is removed.",
        at_least=1,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = key(
        Kind.INT,
        10_000,
        "How often timed-out transactions are aborted.",
        at_least=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = key(
        Kind.INT,
        3_600_000,
        "How often expired transactional ids are removed.",
        at_least=1,
    )
    transaction_partition_verification_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether a partition verifies a transaction with its coordinator before it accepts the"
        " first batch.",
        mode=Mode.CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether transactions without a timeout are allowed (KIP-939), which another system"
        " coordinates. An open one blocks read_committed consumers until it ends.",
    )
    transactional_ids_max = key(
        Kind.INT,
        1_000_000,
        "The most transactional ids; a new one beyond it is refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
