"""AMQP's model and its queues: who is routed to, what waits, and who holds it.

    queue_settings    what a queue was declared with; a message as it is published to queues
    message_store     the port behind which a queue's messages are kept
    memory_messages   messages of transient and exclusive queues, up to a bound
    memory_use        what all of them hold together, and when publishers are stopped
    log_messages      messages of durable queues: records of a partition; on these:
      record_messages   messages become records, records messages
      message_reader    what is committed, read back from the log
      message_window    what is at hand of what goes out next
      settlement        what is settled, as it changes; on handed_out
      settled_state     how that is written; settled_files: when, for all queues together
    message_level     the ready messages of one priority, in the order in which they go out
    unacked           a channel's delivery tags: who holds which message of which queue
    consumers         who may take, and whose turn it is
    deliveries        messages become deliveries
    dead_letters      why messages die, what their headers say of it, where they must not go
    message_queue     one queue: all of these together

Pure: time and the disk are handed in.

virtual_host        exchanges, queues and bindings of one vhost: RabbitMQ's checks, codes and texts
routing             from an exchange and a key to queues; on topic_trie and headers_matching
arguments           what queues' and consumers' arguments may be; queue_settings: what they come to
permissions         who may configure, write and read what
queue_names         a queue's topic and back
stored_model        what of a vhost outlives a broker
"""
