"""Log compaction: of each key the newest record stays (Kafka's LogCleaner).

* `plan` which log is filthiest, how far it may be compacted, which segments become one
* `order` the settings, and the job that is made of what was chosen
* `job` what is handed to whoever does the work, and what comes back
* `clean_segments` the work: keys to offsets, then every segment copied without what is superseded
* `records` the record-by-record part in Python; `kernels.compact_records` is its compiled twin
* `transactions` which markers and aborted records may go
* `swap_segments` cleaned segments take the place of the old ones, also after a crash in the middle
* `cleaner` when, one log at a time, and what is remembered of it

The engine reads old segments and writes `.cleaned` ones, nothing else: it may run in another
process, and be killed at any moment. Only `swap_segments` changes a log.
"""
