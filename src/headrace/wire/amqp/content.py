"""A message of AMQP as it is published, kept and delivered."""


class Message:
    """One message. Its content header is kept as the bytes that came, and relayed as such.

    Decoding properties costs more than all else that is done to a message: who needs one reads it
    from `header` alone.
    """

    __slots__ = ("body", "exchange", "header", "routing_key")

    def __init__(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> None:
        """`header`: the payload of the content header frame: class, weight, body size, property
        flags and properties (AMQP 0-9-1, section 4.2.6.1)."""
        self.exchange = exchange
        self.routing_key = routing_key
        self.header = header
        self.body = body
