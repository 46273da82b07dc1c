"""Cursors with holes: which records of a partition are settled, available, or acquired by whom.

A consumer offset says "all below is processed". Queues need more: a record is acquired by one
consumer while its neighbours are settled, is available again if that consumer releases it or
leaves, and is archived after too many deliveries. One engine serves Kafka's share groups (KIP-932),
AMQP queues and RocketMQ's pop consumers.

    record_states   a record's states, and batches of offsets in one state
    offset_runs     a map of offsets to values, as runs of equal values
    recent_runs     the same with the latest offsets in a list: in-order settling stays there
    record_runs     the state of each record, and which records are available
    leases          which holder has which records, until when
    rules           the settings of a cursor
    cursor          the engine: acquire, settle, renew, expire; the lowest offset still wanted
    changes         changes that must be stored, and up to where records may be delivered
    cursor_state    the persisted form: start offset, state batches, delays; its store
    settled_state   the encoding of a queue's settled positions; settled_runs: runs by the million
    batches         which parts of a log are records for delivery
    start_offset    the first offset of a partition without state
    partition_delivery  drives a cursor: reads the partition, times leases, stores changes

Pure but for `partition_delivery`: time is an argument, and no I/O is done. Offsets never delivered
cost nothing, settled ones an entry a run, acquired or released ones an entry each. A step is O(log
n) in these entries for each run it touches; for recent offsets it is a step in a list.
"""
