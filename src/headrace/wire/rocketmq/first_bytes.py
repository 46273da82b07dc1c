"""How clients of RocketMQ are known by their first bytes."""

from headrace.wire.first_bytes import FirstBytes, no_refusal

ROCKETMQ = FirstBytes(
    "RocketMQ",
    "a RocketMQ",
    # A length below 32 MiB, then the header's form and length: 1, binary, or 0, JSON. JSON headers
    # of clients have 60 bytes or more; from 32 bytes to 64 KiB none looks like Kafka's Produce.
    rb"(?s)[\x00\x01].{3}(?:\x01.{3}|\x00\x00(?:\x00[\x20-\xff]|[\x01-\xff].))",
    rb"(?!)",
    no_refusal,
)
