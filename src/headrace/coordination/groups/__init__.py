"""Group coordinator: members and assignments of groups, and their committed offsets.

*Coordinators are partitions.* Each partition of `__consumer_offsets` that this broker leads has one
`GroupShard`. The hash of a group's id chooses its shard. A shard replays its partition's log when
this broker becomes the leader (`runtime.loader`) and is dropped when leadership ends. Offsets
become visible, and commits and assignments are answered, only after the high watermark has passed
their records.

    group_coordinators   the facade: group id -> shard, and all requests of the frontends
    group_shard          one partition's groups, as `shards` loads and drops them
    context              the state that all handlers of a shard share
    classic/             the classic protocol: its states, and one file for each request
    modern/              code shared by groups whose coordinator computes the assignment
    consumer/            consumer groups of that kind (KIP-848), and migration to and from them
    share/               share groups (KIP-932)
    assignors/           server-side assignors of consumer groups
    commit, committed_offsets, expiry    committed offsets and their retention
    describe, messages   responses to admin requests; requests and responses without wire formats

Nothing in this package waits, reads a clock of its own or knows a wire format other than the
records'. Each request brings a callback for its response. The reference for all behaviour is
Kafka's classic group coordinator (KIP-62, 345, 394, 429, 559, 800, 814) and Kafka 4's
GroupMetadataManager. A group id is in one of the shard's two tables: classic or modern. Records of
streams groups, a third modern kind, are skipped in `group_shard.apply`.
"""
