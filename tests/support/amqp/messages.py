"""Methods and contents of AMQP drawn at random, and the frames that they are."""

from hypothesis import strategies as st

from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import FRAME_BODY, FRAME_HEADER, FRAME_OVERHEAD_BYTES, encode_frame
from headrace.wire.amqp.methods import METHODS, Method, encode_method
from headrace.wire.amqp.model_methods import BasicPublish
from headrace.wire.amqp.properties import Properties, make_header

SHORT_STRINGS = st.text(st.characters(codec="utf-8"), max_size=63)
TABLES: st.SearchStrategy[FieldTable] = st.dictionaries(
    SHORT_STRINGS, st.integers(-5, 5) | st.booleans() | SHORT_STRINGS, max_size=3
)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "octet": st.integers(0, (1 << 8) - 1),
    "short": st.integers(0, (1 << 16) - 1),
    "long": st.integers(0, (1 << 32) - 1),
    "longlong": st.integers(0, (1 << 64) - 1),
    "bit": st.booleans(),
    "shortstr": SHORT_STRINGS,
    "longstr": st.binary(max_size=300),
    "table": TABLES,
}


def methods(kind: type, **others: st.SearchStrategy[object]) -> st.SearchStrategy[Method]:
    """Draw methods of a kind; `others`: what else fields are drawn from, by their kinds."""
    drawn = FIELDS | others
    fields = (drawn[annotated.__metadata__[0]] for annotated in kind.__annotations__.values())
    return st.builds(kind, *fields)


any_method = st.sampled_from(list(METHODS.values())).flatmap(methods)


def content_frames(
    channel: int, body: bytes, properties: Properties, frame_bytes_max: int = 131_072
) -> bytes:
    """Return the frames of a content: its header, and its body in as many as it needs."""
    header = encode_frame(FRAME_HEADER, channel, make_header(len(body), properties))
    return header + body_frames(channel, body, frame_bytes_max)


def body_frames(channel: int, body: bytes, frame_bytes_max: int) -> bytes:
    """Return a body in as many frames as it needs."""
    size = frame_bytes_max - FRAME_OVERHEAD_BYTES
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(encode_frame(FRAME_BODY, channel, piece) for piece in pieces)


def publish_frames(
    channel: int,
    message: Message,
    flags: int = 0,
    frame_bytes_max: int = 131_072,
) -> bytes:
    """Return the frames of a publish of `message`, with the header that it has."""
    method = BasicPublish(
        0, message.exchange, message.routing_key, bool(flags & 1), bool(flags & 2)
    )
    header = encode_frame(FRAME_HEADER, channel, message.header)
    body = body_frames(channel, message.body, frame_bytes_max)
    return encode_method(channel, method) + header + body


def message(
    body: bytes = b"body",
    exchange: str = "",
    routing_key: str = "q",
    properties: Properties = Properties(),  # noqa: B008
) -> Message:
    """Make a message as it would have been published."""
    return Message(exchange, routing_key, make_header(len(body), properties), body)
