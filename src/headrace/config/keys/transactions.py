"""Keys of transactions and their log."""

from headrace.config.value_types import INT_MAX, Definition, Kind, Mode, key

TRANSACTIONS: tuple[Definition, ...] = (
    key(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        "Partitions of __transaction_state, fixed when it is made.",
        at_least=1,
    ),
    key(
        "transaction.state.log.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of __transaction_state, fewer where there are fewer brokers.",
        at_least=1,
    ),
    key(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of __transaction_state.",
        at_least=1,
    ),
    key(
        "transaction.state.log.min.isr",
        Kind.INT,
        2,
        "Replicas of __transaction_state that must be in sync, at most as many as it has.",
        between=(1, INT_MAX),
    ),
    key(
        "transaction.max.timeout.ms",
        Kind.INT,
        900_000,
        "The longest time a transactional producer may ask its transactions to take.",
        at_least=1,
    ),
    key(
        "transactional.id.expiration.ms",
        Kind.INT,
        604_800_000,
        "A transactional id without a transaction for this long is forgotten.",
        at_least=1,
    ),
    key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        "How often transactions that take too long are looked for, to be aborted.",
        at_least=1,
    ),
    key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        3_600_000,
        "How often transactional ids nobody uses any more are looked for.",
        at_least=1,
    ),
    key(
        "transactional.ids.max",
        Kind.INT,
        1_000_000,
        "Transactional ids that are remembered; a new one beyond is refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    ),
)
