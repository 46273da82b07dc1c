"""What the coordinators write into their partitions, in Kafka's own record formats.

`consumer_offsets` holds committed offsets and groups, `transaction_state` the
transactions. Both turn a record's key and value into dataclasses and back: what real Kafka
wrote comes back as the same bytes, tagged fields nobody knows included. A value of None is a
tombstone and never reaches a decoder. Bytes that do not parse raise `CorruptBatch`.
"""
