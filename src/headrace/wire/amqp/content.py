"""An AMQP message as it is published, stored and delivered."""


class Message:
    """An AMQP message. Its content header is stored and delivered as the bytes received.

    Decoding all properties would cost more than all other handling of a message, so each reader
    decodes from `header` only those that it needs.
    """

    __slots__ = ("body", "exchange", "header", "routing_key")

    def __init__(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> None:
        """`header`: the payload of the content header frame: class, weight, body size, property
        flags and properties (AMQP 0-9-1, section 4.2.6.1)."""
        self.exchange = exchange
        self.routing_key = routing_key
        self.header = header
        self.body = body
