"""What is declared in a vhost, and where a message goes.

virtual_host      exchanges, queues and bindings of one vhost: RabbitMQ's checks, codes and texts
declarations, bindings, exchanges   its parts
routing           from an exchange and a key to queues; on topic_trie and headers_matching
arguments         what queues' and consumers' arguments may be
published_properties   what of a message's properties matters to queues
durability        the port of whoever keeps what outlives a broker
stored_model      what of a vhost that is; stored_records: how it is written
"""
