"""Log compaction: keep the newest record of each key (Kafka's LogCleaner).

* `plan` the log to compact, its offset range, and the segments to merge
* `order` the job made from the settings and the chosen log
* `job` the values exchanged with the process that does the work
* `clean_segments` the work: map keys to offsets, then copy segments without superseded records
* `records` the part per record in Python; `kernels.compact_records` is its compiled version
* `transactions` removable transaction markers and aborted records
* `swap_segments` replace old segments by cleaned ones, also after a crash in between
* `cleaner` schedule compactions, one log at a time, and store their progress; `cleaner_settings`
* `compaction_run` one compaction, from the choice of its log to its end

`clean_segments` reads old segments and writes `.cleaned` files, nothing else: it may run in another
process and be killed at any time. Only `swap_segments` changes a log.
"""
