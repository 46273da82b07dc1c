"""The log on disk: Kafka's partition directories, byte for byte, through the Disk it is handed.

Read in this order:

* `names` file and directory names · `files` the small text files (checkpoints and their kin)
* `index`, `txnindex`, `snapshot` the bytes of the files beside a segment
* `segment` one `.log` with its indexes: append, roll, rebuild; `finding` where an offset lies in it
* `epochs`, `producers` what a partition remembers of its leaders and its producers
* `log` one partition: append, roll, flush, retain, truncate; `limits` what it takes, `unflushed`
  what waits for the disk, `readable` what readers use of it, `reader` how batches leave, `lookup`
  the search by time
* `recover` from a directory to a Log · `directory` a whole `log.dir` · `flusher` group commit
* `dump` every file type as rows for people · `verify`, `repair`, `transfer` what is done to
  directories no broker has open, `reindex` a part of both

No asyncio, no threads, no clock of its own: what must wait is a blocking function that the caller
hands to `Disk.run`, and every callback comes back on the deciding thread. One timer per directory,
none per partition; a segment's file is opened when it is first needed.

Not done, on purpose: indexes carry no checksum, since they are rebuilt from the segment whenever
they do not make sense. Records are never decompressed here except to find one record by its time.
"""
