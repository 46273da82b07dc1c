"""What a broker decides.

    broker              the facade: partitions by name and id, log directories, settings, life
    partition           append, commit and read of one partition; what must hold before an answer
    partition_role      leads, follows or neither; with leader_term, follower, in_sync_replicas
    waiters, watchable  who waits for a partition, and is told
    metadata_image      the picture of the cluster, changed in place by deltas
    gathered_writes     what one pass over a connection's requests appends, written at once
    producer_ids        ids for idempotent producers, out of reserved blocks
    flush_intervals     log.flush.interval.ms and flush.ms
    quotas, telemetry   what clients may do in a second, and what they tell of themselves

No asyncio, no threads, no clock of its own: everything is called on one thread, never waits, and
tells by callback what comes later.
"""
