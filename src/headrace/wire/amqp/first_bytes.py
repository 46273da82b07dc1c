"""How clients and servers of AMQP are known by their first bytes, and how clients are refused."""

from headrace.wire.first_bytes import FirstBytes


def _refusal(text: str) -> bytes:
    """Return Connection.Close: clients show its text, before Connection.Start too."""
    from headrace.wire.amqp.control_methods import ConnectionClose
    from headrace.wire.amqp.methods import encode_method
    from headrace.wire.amqp.reply_codes import ReplyCode

    return encode_method(0, ConnectionClose(ReplyCode.NOT_IMPLEMENTED, text[:255], 0, 0))


AMQP = FirstBytes(
    "AMQP",
    "an AMQP",
    rb"AMQP",
    rb"AMQP",
    _refusal,
    b"AMQP\x00\x00\x09\x01",
)
