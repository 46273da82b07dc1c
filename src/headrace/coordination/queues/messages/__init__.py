"""What keeps a queue's messages, behind `message_store`.

memory_messages   messages of transient and exclusive queues, up to a bound
memory_use        what all of them hold together, and when publishers are stopped
durable_messages  messages of a durable queue whose log is made with the first of them
log_messages      messages of durable queues: records of a partition; on these:
  log_loading     a log begun with
  record_messages messages become records, records messages
  message_reader  what is committed, read back from the log
  message_window  what is at hand of what goes out next
  settlement      what is settled, as it changes; on handed_out
  settled_runs    runs of positions, by the million
  settled_state   how that is written; settled_files: when, for all queues together
"""
