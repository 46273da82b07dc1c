"""Transaction coordinators: transactional ids, producer epochs, and the end of transactions.

The state of a transactional id is in the partition of `__transaction_state` that its hash selects.
That partition's shard decides, appends the decision, and acts on it once it is committed.

    transaction_coordinators   transactional id -> shard; the methods that frontends call
    transaction_shard          one partition's transactions: decide, append, answer once committed
    transaction_state          a transaction's immutable state, and the permitted transitions
    decide             each decision as a pure function: state in, next state or refusal out
    producers          a producer's id and epoch
    records            the state as a record of the log, and back
    participants       the partitions led by this broker, for writing markers
    all_transactions   requests to partition leaders and transaction coordinators of the cluster
    markers            a decided transaction's markers, written until each partition has its own
    timers             timed-out transactions and expired transactional ids
    describe           results of DescribeTransactions and ListTransactions
    counts             counters of ended transactions
    limits             limits by Kafka's configuration names

The state changes when its record is appended, and the request is answered when the record is
committed. Later records are behind it in the log, so none of them can be durable without it.
Markers are written once the decision is committed. Meanwhile requests for the next transaction wait
here for up to a second before they end with CONCURRENT_TRANSACTIONS.

Behaviour follows Kafka's TransactionCoordinator (KIP-98, 360, 447, 588, 664, 890, 939).
"""
