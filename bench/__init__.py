"""What `make bench` runs: ours and a peer beside us, row by row in turn.

The peer is Apache Kafka (PEER=kafka), RabbitMQ (PEER=rabbitmq), Apache RocketMQ (PEER=rocketmq) or
another checkout of ours (PEER=its directory).

`subjects` starts and watches the brokers, `checkouts` runs what needs none in the checkout it is
of, `rows` says how brokers that stay up are measured, `table_rows` what of them, `sections` what
brings its own; `librdkafka`, `rawload` and `latency` are the clients, `report` prints one table.
`queue_brokers`, `queue_rows`, `queue_sections` and `queue_load` are the same for queues over AMQP,
`rocketmq_brokers`, `rocketmq_rows`, `rocketmq_sections` and `rocketmq_load` for RocketMQ's clients.
`clusters` has three brokers of each, `replicated` and `failover` measure them for
`cluster_sections`.
`compaction`, `recovery`, `partitions`, `arrow_scan` and `start` are sections that
can be run by themselves too. Figures are medians over rounds; ratios are taken round by round, so
that a machine whose speed drifts does not decide them.
"""
