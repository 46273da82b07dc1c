"""A broker's partitions, metadata, quotas and settings.

    broker              the facade: partitions by name and id, log directories, settings
    partition           append, commit and read of one partition
    replica/            partition_role: leader, follower or none; leader_term, follower, ISR
    waiters, watchable  callbacks for committed offsets, and for new data
    metadata_image      the cluster's metadata for clients, changed in place by deltas
    gathered_writes     the appends of one pass over a connection's requests, one write per file
    producer_ids        ids for idempotent producers, from reserved blocks
    flush_intervals     log.flush.interval.ms and flush.ms
    quotas, telemetry   rate limits of clients, and metrics that clients push

These files use no asyncio, no threads and no clock of their own: all calls come from one thread,
never block, and report later results by callback.
"""
