"""The declarations of vhosts, and their log.

On a single broker:

declaration_log       the log of durable declarations: records of a compacted internal topic
declaration_shard     one of its partitions, loaded
stored_changes        plain values of both
takeover              declarations of earlier versions: nodes of the metadata store
partitions            the replicas of the log that a broker has

In a cluster (ADR 76):

cluster_declarations  commands of this broker's clients, and requests of other brokers
messages              commands, answers and polls, and their fields
commands              commands carried out on a vhost's model
coordinator           the partitions that this broker leads, with `coordinator_shard` for each
new_records           the records of a command's changes
queue_deletions       topics of deleted queues
planned_replicas      the brokers that are planned for a queue's messages
log_growth            more replicas of the log, as more brokers serve queues
confirmations         the brokers that have applied a change
log_polls             polls of other brokers
follower              polls of other coordinators
tables                this broker's table of each partition, a `followed_table`
"""
