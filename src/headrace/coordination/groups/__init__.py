"""Consumer groups: who is in them, what each member reads, how far the group has come.

*Coordinators are partitions.* Every partition of `__consumer_offsets` that this broker leads has
one `GroupShard`; a group lives in the shard its name hashes to. A shard is replayed from its
partition's log when leadership comes (`loader`), dropped when it goes, never trusted beyond what
was appended: offsets become visible, and commits and assignments are answered, once the high
watermark has passed them.

    group_coordinators   the facade: group name -> shard, and what frontends call
    group_shard          one partition's groups, as `coordination.runtime` loads and drops them
    context              what the verbs of a shard share
    classic/             the classic protocol: its states, and its verbs one by one
    modern/              what groups have in common in which the coordinator assigns
    consumer/            consumer groups among these (KIP-848), and how they migrate
    share/               share groups among these (KIP-932)
    assignors/           who is to read what in a consumer group
    commit, committed_offsets, expiry    committed offsets and when they end
    describe, messages   what the admin requests show; requests and answers free of the wire

Nothing here waits, reads a clock of its own or knows a wire format beyond the records' own. Answers
go out through the callback each request brings. Kafka's classic group coordinator (KIP-62, 345,
394, 429, 559, 800, 814 and GroupMetadataManager of Kafka 4) settles every behaviour. A group's id
is in one of the shard's tables: classic or modern. Records of streams groups, the third kind of
modern ones, are passed over: their seam is `group_shard.apply`.
"""
