"""The cursor with holes: what of one partition is still wanted, and by whom it is held.

A plain offset says "all below is done". Queues need more: a record is out with one consumer while
its neighbours are done, comes back if that consumer gives it up or goes, and ends in the archive
after too many tries. One engine does this for Kafka's share groups (KIP-932), AMQP queues and
RocketMQ's pop consumers.

    record_states   a record's states, and the batches of offsets in one state
    offset_runs     offsets to values, kept as runs of equal ones
    leases          who holds what until when
    cursor          the engine: acquire, settle, renew, expire; the lowest offset still wanted
    cursor_state    the persisted form: a start offset and state batches; its port

Pure: time is handed in, nothing is read or written. What nobody has asked for yet costs nothing,
what is done costs one entry a run, and only what is out or came back has entries of its own; every
step is O(log n) in those, for each run it touches.
"""
