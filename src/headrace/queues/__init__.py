"""AMQP's model and its queues: who is routed to, what waits, and who holds it.

    field_values      values of field tables: kinds, when two are equal
    refusals          errors of the model, with RabbitMQ's texts
    queue_settings    what a queue was declared with; a message as it is published to queues
    queue_names       a queue's topic and back
    port              all that a protocol's channel knows of a queue
    message_store     the ports between a queue and whatever keeps its messages
    permissions/      who may configure, write and read what
    model/            exchanges, queues and bindings of a vhost; routing
    stores/           message stores: memory, records of a log
    engine/           one queue, its consumers and its dead letters; all queues of a vhost

Folders import those above them. Pure: time and the disk are handed in.
"""
