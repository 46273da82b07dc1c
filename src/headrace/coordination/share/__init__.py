"""Share groups (KIP-932): several members consume a partition; each record goes to one of them.

Groups and assignments are stored in `__consumer_offsets`, delivery states of records in
`__share_group_state`, both in Kafka's record formats. Acquisitions are known to the partition's
leader only; if it forgets them, the records are delivered again.

    share_service      the methods that frontends call, and the broker's notifications
    state_port         the interface to the stored state, on whichever broker that is
    all_share_states   its implementation in a cluster: in order, with retries · questions
    share_states       its implementation on one broker · state_shard: one partition of the topic
    keys               the key of a share partition's state
    share_partitions   all share partitions served by this broker
    share_partition    one of them: its delivery, settings and stored state
    cursor_store       the stored state as the store of one cursor
    acknowledgements   acknowledgement types · start_offset: the first offset of a new group
    sessions           the partitions that a member fetches
    counts             counters of acquired and acknowledged records

Reading, acquisition and timing of records are in `delivery`. Nothing here blocks, reads a clock of
its own or knows a wire format beyond the stored records'. Behaviour follows SharePartition,
ShareCoordinatorShard and GroupMetadataManager of Kafka 4.3.
"""
