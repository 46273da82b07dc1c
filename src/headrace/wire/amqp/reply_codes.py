"""Reply codes that close an AMQP channel or connection, and the exceptions that carry them.

Texts begin with the code's name, like RabbitMQ's: `NOT_FOUND - no queue 'q' in vhost '/'`.
"""

from enum import IntEnum

from headrace.model.errors import HeadraceError


class ReplyCode(IntEnum):
    """AMQP reply codes (AMQP 0-9-1 reference, section 1.1)."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


class AmqpError(HeadraceError):
    """An error that closes a channel or a connection with a reply code and a text."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        """`text`: the reply text after the code's name and a dash."""
        super().__init__(f"{code.name} - {text}")
        self.code = code
        self.text = text


class ChannelClosing(AmqpError):
    """An error that closes the channel; other channels of the connection continue."""


class ConnectionClosing(AmqpError):
    """An error that closes the connection."""
