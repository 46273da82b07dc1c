"""Consumer groups: who is in them, what each member reads, how far the group has come.

*Coordinators are partitions.* Every partition of `__consumer_offsets` that this broker leads has
one `GroupShard`; a group lives in the shard its name hashes to. A shard is replayed from its
partition's log when leadership comes (`loader`), dropped when it goes, never trusted beyond what
was appended: offsets become visible, and commits and assignments are answered, once the high
watermark has passed them.

    coordinators   the facade: group name -> shard, and what frontends call
    shard          one partition's groups, as `broker.coordinator.shard` loads and drops them
    states         the classic state machine as a table
    group, member  the classic group's data and what can be asked of it
    join, sync, membership, rebalance   the classic protocol, verb by verb
    commit, offsets, expiry             committed offsets and when they end
    describe       what the admin requests show
    messages       requests and answers, free of any wire format
    consumer/      groups of the newer protocol (KIP-848), where the coordinator assigns
    assignors/     how it does
    assigning      large groups' assignors on threads, share groups' too

Nothing here waits, reads a clock of its own or knows a wire format beyond the records' own. Answers
go out through the callback each request brings. Kafka's classic group coordinator (KIP-62, 345,
394, 429, 559, 800, 814 and GroupMetadataManager of Kafka 4) settles every behaviour. A group's id
is in one of the shard's tables: classic, consumer or share (`groups.share`). Records of streams
groups are passed over: their seam is `shard.apply`.
"""
