"""The textbook cases of replication that `headrace trace` plays.

cases           the cases, and the table of all
send_modes      those of a client that names roles and flush types, not acks
cluster         the replicas A, B and C of a case
before_epochs   truncation to the high watermark, as before Kafka 0.11
"""
