"""AMQP's queues, exchanges and bindings: declarations, routing, deliveries.

    field_values      values of field tables: kinds, when two are equal
    refusals          errors of the model, with RabbitMQ's texts
    queue_names       the name of a queue's topic, and the queue of a topic's name
    port              interface between a protocol's channel and a queue
    permissions/      users' configure, write and read permissions
    model/            exchanges, queues and bindings of a vhost; routing
    engine/           a running queue, its consumers and dead letters; all queues of a vhost

Folders import those above them. The stores of messages are the room `queue_stores`.
"""
