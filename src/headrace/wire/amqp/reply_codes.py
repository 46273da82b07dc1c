"""The codes by which AMQP 0-9-1 closes a channel or a connection, and the errors that carry them.

Texts begin with the code's name, as RabbitMQ's do: `NOT_FOUND - no queue 'q' in vhost '/'`.
"""

from enum import IntEnum

from headrace.model.errors import HeadraceError


class ReplyCode(IntEnum):
    """Reply codes (AMQP 0-9-1, section 1.1 of the reference)."""

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
    """Closes a channel, or the whole connection, with a code and a text."""

    def __init__(self, code: ReplyCode, text: str) -> None:
        """`text`: what follows the code's name and a dash."""
        super().__init__(f"{code.name} - {text}")
        self.code = code


class ChannelClosing(AmqpError):
    """Closes the channel; the connection's other channels go on."""


class ConnectionClosing(AmqpError):
    """Closes the connection."""
