"""What every coordinator shares: state that is a partition of an internal topic.

*Coordinators are partitions.* Each partition of `__consumer_offsets` or `__transaction_state` that
this broker leads has one shard, which is replayed from the partition's log when leadership comes,
changed only by what was appended there, and dropped when leadership goes.

    led_shards       the shards of one internal topic: by partition, and by what hashes to them
    shard            one partition's state: load, serve, unload
    journal          records -> batches -> the partition; tells when they are committed
    ask_leader       questions to the broker that leads a partition, asked again
    loader           the partition's log -> records, in slices
    latest_records   of each key the last record: what a replay applies
    replay_turns     all replays of a broker, one slice at a time
    group_partition  which partition a key lives in
    derived          limits made of the configuration, once for each

What the records mean is for those who use this: `groups`, `share`, `transactions` beside it.
"""
