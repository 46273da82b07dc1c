"""A Kafka log on disk: partition directories in Kafka's format, read and written through a `Disk`.

Read in this order:

* `file_names` file and directory names · `text_files` checkpoints and the other small text files
* `segment/` one `.log` file with its indexes: append, roll, rebuild, find an offset, serve a range
* `leader_epochs`, `producers/` a partition's leader epochs and its idempotent producers
* `log` one partition: append, roll, flush; `batch_limits` the size and time limits of a topic,
  `unflushed` files waiting for a flush, `log_reader` reads, `lookup` the search by timestamp,
  `retention`, `truncation`, `truncation_run`
* `append_run` several batches by one write · `follower_append` batches fetched from a leader
* `flusher` group commit · `directory/` a whole `log.dir` · `recovery/` from a directory to a Log
* `compaction/` which segments are compacted, how, and how new segments replace old ones

These files use no asyncio, no threads and no clock of their own. Blocking work is a function that
the caller passes to `Disk.run`; every callback runs on the deciding thread (the event loop's).
Timers exist per log directory, not per partition. A segment's file is opened at its first use.

Indexes carry no checksum: they are rebuilt from the segment whenever they contradict it. Records
are decompressed here only to find the first record at or after a timestamp.
"""
