"""Transactions: who may write under a transactional id, and how a transaction ends.

A transactional id lives in the partition of `__transaction_state` its name hashes to; that
partition's shard decides, writes the decision down, and only then acts on it:

    transaction_coordinators   the facade: transactional id -> shard, and what frontends call
    transaction_shard          one partition's transactions: decide, append, answer once committed
    transaction_state          a transaction's state, immutable, and the table of its moves
    decide         every decision as a plain function: state in, next state or refusal out
    producers      who a producer says it is
    records        the state as a record of the log and back
    participants   the partitions of this broker as transactions see them
    all_transactions  partitions and transactional ids of the whole cluster: questions to leaders
    markers        a decided transaction's markers, written until every partition has its own
    timers         transactions that take too long, ids nobody uses any more
    describe       what the admin requests show
    counts         what has become of transactions since the start
    limits         by Kafka's configuration names

The state moves when its record is appended, and is answered for when that is committed: what comes
next goes into the log behind it, so nothing can be kept of which an earlier part is lost. Markers
wait for the decision to be committed, and while they are under way the next transaction waits for
them here instead of being sent away to try again.

Kafka's TransactionCoordinator (KIP-98, 360, 447, 588, 664, 890) settles every behaviour.
"""
