"""Share groups (KIP-932): many members read one partition, each record is with one of them.

A group's members and what they read live in `__consumer_offsets`, with the other groups; how far
the group is in each partition lives in `__share_group_state`; both in Kafka's own records. What is
out with whom is known to the partition's leader alone, and comes back if that forgets it.

    share_service      the facade: what frontends call, what the broker tells
    state_port         what is asked of where state is kept, on whichever broker that is
    all_share_states   the same in a cluster: in order, and again where it may pass · questions
    share_states       what is kept here · state_shard: one partition of the topic
    keys               what it is filed under
    share_partitions   all share partitions served here
    share_partition    one of them: a delivery, its settings and kept state together
    cursor_store       that state as the store of one cursor
    acknowledgements   what members say of records · start_offset: where a group begins
    sessions           which partitions a member fetches
    counts             what has been handed out and acknowledged, in records

Members, assignments and settings of a group are in `coordination.groups.share`. What reads, hands
out and times records is `delivery`. Nothing here waits, reads a clock of its own or
knows a wire format beyond the records' own. Kafka's SharePartition, ShareCoordinatorShard and
GroupMetadataManager of Kafka 4.3 settle every behaviour.
"""
