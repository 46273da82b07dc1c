"""RabbitMQ's texts for unreadable frames, unchanged, since users search for them."""

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
    """Return bytes as Erlang prints them: as text if all are printable, else as numbers."""
    if content and _PRINTABLE.issuperset(content):
        return f'<<"{content.decode("ascii").translate(_ESCAPES)}">>'
    return f"<<{','.join(map(str, content))}>>"


def _snippet(frame: Frame) -> str:
    share = "all" if len(frame.payload) <= _SNIPPET_BYTES else f"first {_SNIPPET_BYTES}"
    start = erlang_binary(frame.payload[:_SNIPPET_BYTES])
    return f"type {frame.kind}, {share} octets = {start}"


def login_refused(mechanism: str) -> ConnectionClosing:
    """Return the error for a failed login, the same for every reason."""
    return ConnectionClosing(
        ReplyCode.ACCESS_REFUSED,
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker"
        " logfile.",
    )


def unreadable_frame(error: FrameTooLarge | WrongFrameEnd) -> ConnectionClosing:
    """Return the error for frames whose boundaries are lost: too large, or a wrong end byte."""
    if isinstance(error, FrameTooLarge):
        reason = f"{{frame_too_large,{error.payload_bytes},{error.payload_bytes_max}}}"
    else:
        reason = f"{{invalid_frame_end_marker,{error.end_marker}}}"
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"{_snippet(error.frame)}: {reason}")


def unknown_frame(frame: Frame) -> ConnectionClosing:
    """Return RabbitMQ's error for a frame of an unknown kind."""
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"{_snippet(frame)}: unknown_frame")


def unexpected_frame(frame: Frame) -> ConnectionClosing:
    """Return the error for a frame that its channel does not expect now."""
    return ConnectionClosing(ReplyCode.UNEXPECTED_FRAME, _snippet(frame))


def undecodable_method(fields: bytes) -> ConnectionClosing:
    """Return the error for a method whose fields cannot be decoded."""
    return ConnectionClosing(ReplyCode.FRAME_ERROR, f"cannot decode {erlang_binary(fields)}")


def reply_text(error: Exception) -> str:
    """Return the text of a close method, cut to 255 bytes with dots at its end."""
    raw = str(error).encode("utf-8", "surrogateescape")
    if len(raw) <= _TEXT_BYTES_MAX:
        return raw.decode("utf-8", "replace")
    return raw[: _TEXT_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."
