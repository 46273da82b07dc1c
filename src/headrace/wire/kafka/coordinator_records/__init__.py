"""Records that coordinators write to their internal topics, in Kafka's own formats.

`consumer_offsets` has committed offsets and groups, `transaction_state` transactions, `share_state`
share groups' progress. Key and value are decoded to dataclasses and encoded again: records written
by Kafka give the same bytes, unknown tagged fields included. A value of None is a tombstone and
never reaches a decoder. Invalid bytes raise `CorruptBatch`.
"""
