"""State of a coordinator, stored in the partitions of an internal topic.

Each partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state` that this
broker leads has one shard. It is replayed from the partition's log when the broker begins to lead,
changed only together with appended records, and dropped when another broker leads.

    led_shards       the shards of one internal topic, found by partition or by key
    shard            one partition's state: load, serve, unload
    journal          records -> batches -> the partition; calls back once they are committed
    ask_leader       requests to the broker that leads a partition, with retries
    loader           the partition's log -> records, in slices
    latest_records   the last record of each key, which a replay applies
    replay_turns     the replays of a broker, one slice at a time
    group_partition  the partition of a key
    derived          an object derived from the configuration, once for each configuration

The meaning of the records is defined in `coordination`: `groups`, `share` and `transactions`.
"""
