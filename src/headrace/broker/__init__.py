"""What a broker decides.

    broker            the facade: partitions by name and id, log directories, settings, life
    partition         append, commit and read of one partition; what must hold before an answer
    partition_role    leads, follows, or neither; the high watermark
    leader_term       a leader's followers; in_sync_replicas decides about its ISR
    follower          a leader followed: what is taken, where the log is cut
    waiters, watchable  who waits for a partition, and is told
    metadata          the picture of the cluster: immutable, replaced when something changes
    producer_ids      ids for idempotent producers, out of reserved blocks
    flush_intervals   log.flush.interval.ms and flush.ms
    quotas, telemetry what clients may do in a second, and what they tell of themselves

No asyncio, no threads, no clock of its own: everything is called on one thread, never waits, and
tells by callback what comes later.
"""
