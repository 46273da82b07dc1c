"""Hand-written one-pass codecs of the hot APIs, one file an API.

Each has `decode_request`, `encode_response` (the broker's side), `encode_request` and
`decode_response` (a client's side). All deal in bodies: `frame` knows lengths and headers. Every
version of Kafka 4.3 is spoken; property tests hold each against kio. Requests and responses are
tuples with names. Fields that a version does not have keep their defaults when decoded and are
left out when encoded. A topic is named by `name`, or, in versions that have ids, by `topic_id` (16
bytes); the other one is then empty or zero.
"""
