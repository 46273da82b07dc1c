"""Kafka's protocol (4.3) and record formats.

    api            API keys, their versions, and which versions are flexible
    frame          request and response headers
    reader, writer primitive types, old and flexible encoding; `primitives` serves both
    hot/           hand-written codecs of the APIs with the highest load
    peer_messages  messages between brokers and controller, by tables of `wire.schema`
    queue_messages calls and events of queues on another broker
    kio_codec      all other APIs through kio, imported when first used; `kio_bounds` checks them
    consumer_protocol     subscriptions and assignments inside JoinGroup and SyncGroup
    coordinator_records/  records of the coordinators' internal topics

Bytes that are not a valid message raise `Malformed`, which closes the connection. A batch that
violates the format raises `ApiError` or its subclass `CorruptBatch`, which is returned to the
client.
"""
