"""The log on disk: Kafka's partition directories, byte for byte, through the Disk it is handed.

Read in this order:

* `file_names` file and directory names · `text_files` checkpoints and the other small text files
* `segment/` one `.log` with its indexes: append, roll, rebuild, find an offset, serve a range
* `leader_epochs`, `producers/` what a partition remembers of its leaders and its producers
* `log` one partition: append, roll, flush; `batch_limits` what it takes, `unflushed` what waits for
  the disk, `log_reader` how batches leave, `lookup` the search by time, `retention`, `truncation`
* `append_run` several batches by one write · `follower_append` what a leader sent, as it is
* `flusher` group commit · `directory/` a whole `log.dir` · `recovery/` from a directory to a Log
* `compaction/` what is compacted, how, and how new segments take the place of old ones

No asyncio, no threads, no clock of its own: what must wait is a blocking function that the caller
hands to `Disk.run`, and every callback comes back on the deciding thread. One timer per directory,
none per partition; a segment's file is opened when it is first needed.

Not done, on purpose: indexes carry no checksum, since they are rebuilt from the segment whenever
they do not make sense. Records are never decompressed here except to find one record by its time.
"""
