"""The stores of queues' messages, behind `message_store`.

queue_settings        settings that a queue was declared with; a message as published to queues
message_store         interfaces between a queue and the stores of its messages
record_messages       messages as records and back
like_records          records that differ from their neighbours in the body only
unacked_positions     positions that consumers hold
memory/
    memory_messages   messages of transient and exclusive queues
    message_run       messages in memory at neighbouring positions
    spilled_messages  messages below the newest, some of them on disk
    memory_use        memory of all stores, and when publishers are blocked
    spill             writes messages to disk that exceed the memory
    spill_order       the order in which queues' messages are written
    spill_files       the files, their number and deletion
    spill_extent      neighbouring messages in a file
log/
    durable_messages  messages of a durable queue whose log is created with the first of them
    waiting_messages  messages published before that, and the publishers that wait for them
    log_messages      messages of durable queues: records of a partition
    log_writing       published messages, written in batches
    log_loading       the state of a log when it is opened
    message_reader    committed messages, read back from the log
    message_window    messages in memory that are delivered next
    settlement        settled positions, as they change
    settlement_frame  changes of them that are being written; settled_files: when and where
    copies_port       their copies on other brokers
stream/
    durable_stream    messages of a stream, and the positions of its consumers
    stream_log        a stream's log
    stream_reader     the position of a consumer; stream_start: its first offset
    stream_chunk      parts of a stream in memory, for all readers
"""
