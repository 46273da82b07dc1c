"""What `make bench` runs: ours and, with PEER=kafka, Apache Kafka beside us, row by row in turn.

`subjects` starts and watches the brokers, `rows` says what is measured on brokers that stay up,
`sections` what brings its own; `librdkafka`, `rawload` and `latency` are the clients, `report`
prints one table. `compaction`, `recovery`, `partitions`, `arrow_scan` and `start` are sections that
can be run by themselves too. Figures are medians over rounds; ratios are taken round by round, so
that a machine whose speed drifts does not decide them.
"""
