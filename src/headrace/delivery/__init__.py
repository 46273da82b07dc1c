"""The cursor with holes: what of one partition is still wanted, and by whom it is held.

A plain offset says "all below is done". Queues need more: a record is out with one consumer while
its neighbours are done, comes back if that consumer gives it up or goes, and ends in the archive
after too many tries. One engine does this for Kafka's share groups (KIP-932), AMQP queues and
RocketMQ's pop consumers.

    record_states   a record's states, and the batches of offsets in one state
    offset_runs     offsets to values, kept as runs of equal ones
    recent_runs     the same with the latest offsets in a list: what is settled in order stays there
    record_runs     what is known of each record, and which are available
    leases          who holds what until when
    rules           what a cursor is told
    cursor          the engine: acquire, settle, renew, expire; the lowest offset still wanted
    changes         what of it is to be kept, and how far records may be handed out
    cursor_state    the persisted form: a start offset, state batches, delays; its port
    batches         which parts of a log are records to be handed out
    start_offset    where a partition without state begins
    partition_delivery  a cursor driven: its partition read, leases timed, changes kept

Pure: time is handed in, nothing is read or written. What nobody has asked for yet costs nothing,
what is done costs one entry a run, and only what is out or came back has entries of its own; every
step is O(log n) in those, for each run it touches. What went out lately and is settled, in order or
almost, is a step in a list.
"""
