"""What `make bench` runs: ours and, with PEER=kafka, Apache Kafka beside us, row by row in turn.

`subjects` starts and watches the brokers, `rows` says what is measured, `librdkafka`, `rawload` and
`latency` are the clients, `report` prints one table. Figures are medians over rounds; ratios are
taken round by round, so that a machine whose speed drifts does not decide them.
"""
