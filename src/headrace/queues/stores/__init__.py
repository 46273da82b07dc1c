"""What keeps a queue's messages, behind `message_store`.

memory_messages   messages of transient and exclusive queues; on these:
  message_run     messages in memory at neighbouring positions
  spilled_messages those below the newest, where some are on disk
memory_use        what all of them hold together, and when publishers are stopped
spill             writes to disk what memory has no room for; on these:
  spill_order     whose messages go first
  spill_files     the files, how many there are and when they go
  extent          neighbouring messages as they are there
durable_messages  messages of a durable queue whose log is made with the first of them
log_messages      messages of durable queues: records of a partition; on these:
  log_writing     what is published, written in batches
  log_loading     a log begun with
  record_messages messages become records, records messages
  message_reader  what is committed, read back from the log
  message_window  what is at hand of what goes out next
  settlement      what is settled, as it changes; on handed_out
  settled_runs    runs of positions, by the million
  settled_state   how that is written; settled_files: when, for all queues together
durable_stream    messages of a stream: they stay, each consumer has a place of his own; on these:
  stream_log      a stream's log; on log_writing, message_reader, nothing_settled
  stream_reader   such a place; stream_start: where it begins
  stream_chunk    stretches of a stream in memory, for all readers
"""
