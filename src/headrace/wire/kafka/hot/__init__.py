"""Hand-written one-pass codecs of the hot APIs, one file for each API.

Each has `decode_request` and `encode_response` for the broker, `encode_request` and
`decode_response` for clients. They handle bodies; `frame` handles lengths and headers. All versions
of Kafka 4.3 are supported; property tests compare each codec with kio. Requests and responses are
named tuples. Fields that a version lacks have defaults when decoded and are omitted when encoded. A
topic is identified by `name`, or in versions with topic ids by `topic_id` (16 bytes); the other is
empty or zero.
"""
