"""Kafka's protocol (4.3) and record formats.

    api            API keys, their versions, which of them are flexible
    frame          request and response headers
    reader, writer the protocol's primitive types, old and flexible; `primitives` serves both
    hot/           hand-written codecs of the APIs that carry the load
    peer_messages  what brokers say to each other, by tables of `coordinator_records.schema`
    cold           all other APIs through kio, imported when first met
    batch, record  record batch v2: check, stamp, iterate, read, build
    compression    the four codecs, never unfolding more than allowed
    records/       what coordinators keep in their internal topics

Bytes from the wire that are no message raise `Malformed`: that connection ends. A batch that breaks
the format raises `ApiError`, or its subclass `CorruptBatch`: an answer, not an end.
"""
