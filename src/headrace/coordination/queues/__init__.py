"""AMQP's model and its queues: who is routed to, what waits, and who holds it.

Pure: time is handed in, nothing is read or written here.

virtual_host        exchanges, queues and bindings of one vhost: RabbitMQ's checks, codes and texts
routing             from an exchange and a key to queues; on topic_trie and headers_matching
arguments           what queues' and consumers' arguments may be; queue_settings: what they come to
permissions         who may configure, write and read what
queue_names         a queue's topic and back
stored_model        what of a vhost outlives a broker
"""
