"""RabbitMQ's words for what cannot be read. People search for them, so they are told as there."""

from headrace.wire.amqp.frames import Frame, FrameTooLarge, WrongFrameEnd
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

_SNIPPET_BYTES = 16
_TEXT_BYTES_MAX = 255
_PRINTABLE = frozenset((*range(32, 127), *b"\b\t\n\v\f\r\x1b"))
_ESCAPES = str.maketrans(
    {
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\v": "\\v",
        "\f": "\\f",
        "\r": "\\r",
        "\x1b": "\\e",
        '"': '\\"',
        "\\": "\\\\",
    }
)


def erlang_binary(content: bytes) -> str:
    """Return bytes as Erlang prints them: a text where all can be printed, else numbers."""
    if content and _PRINTABLE.issuperset(content):
        return f'<<"{content.decode("ascii").translate(_ESCAPES)}">>'
    return f"<<{','.join(map(str, content))}>>"


def _snippet(frame: Frame) -> str:
    share = "all" if len(frame.payload) <= _SNIPPET_BYTES else f"first {_SNIPPET_BYTES}"
    start = erlang_binary(frame.payload[:_SNIPPET_BYTES])
    return f"type {frame.kind}, {share} octets = {start}"


def login_refused(mechanism: str) -> ConnectionClosing:
    """Return what a client is told who is not let in, whyever that is."""
    return ConnectionClosing(
        ReplyCode.ACCESS_REFUSED,
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker"
        " logfile.",
    )


def unreadable_frame(error: FrameTooLarge | WrongFrameEnd) -> ConnectionClosing:
    """Return how a connection is closed whose frames cannot be told apart any more."""
    if isinstance(error, FrameTooLarge):
        reason = f"{{frame_too_large,{error.payload_bytes},{error.payload_bytes_max}}}"
    else:
        reason = f"{{invalid_frame_end_marker,{error.end_marker}}}"
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"{_snippet(error.frame)}: {reason}")


def unknown_frame(frame: Frame) -> ConnectionClosing:
    """Return how a connection is closed for a frame of no kind there is."""
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"{_snippet(frame)}: unknown_frame")


def unexpected_frame(frame: Frame) -> ConnectionClosing:
    """Return how a connection is closed for a frame that may not be on its channel now."""
    return ConnectionClosing(ReplyCode.UNEXPECTED_FRAME, _snippet(frame))


def undecodable_method(fields: bytes) -> ConnectionClosing:
    """Return how a connection is closed for a method whose fields cannot be read."""
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"cannot decode {erlang_binary(fields)}")


def reply_text(error: Exception) -> str:
    """Return the text of a close: what is too long for a short string ends with dots."""
    raw = str(error).encode("utf-8", "surrogateescape")
    if len(raw) <= _TEXT_BYTES_MAX:
        return raw.decode("utf-8", "replace")
    return raw[: _TEXT_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."
