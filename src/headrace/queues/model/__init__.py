"""Declarations of a vhost, and the routing of messages.

virtual_host      commands that change a vhost: RabbitMQ's checks and texts
vhost_table       exchanges, queues and bindings of one vhost
declaration_table the same, changed by records of the log of declarations
declarations, bindings, exchanges   parts of it
routing           from an exchange and a key to queues; on topic_trie and headers_matching
arguments         queues' and consumers' arguments; argument_checks: their values
policies/         policies of a vhost: checks, matching, settings joined with arguments
exchange_topic    exchanges that store in a Kafka topic, and streams that read one
published_properties   properties of a message that queues and routing use
durability        port to the storage of durable declarations
stored_model      durable declarations as records; stored_records: their encoding
"""
