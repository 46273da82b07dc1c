"""AMQP's queues, exchanges and bindings: declarations, routing, deliveries, message stores.

    field_values      values of field tables: kinds, when two are equal
    refusals          errors of the model, with RabbitMQ's texts
    queue_settings    settings that a queue was declared with; a message as published to queues
    queue_names       the name of a queue's topic, and the queue of a topic's name
    port              interface between a protocol's channel and a queue
    message_store     interfaces between a queue and the stores of its messages
    permissions/      users' configure, write and read permissions
    model/            exchanges, queues and bindings of a vhost; routing
    stores/           message stores: memory, records of a log, streams, Kafka topics
    engine/           a running queue, its consumers and dead letters; all queues of a vhost

Folders import those above them. No I/O of their own: clock, disk and logs are passed in.
"""
