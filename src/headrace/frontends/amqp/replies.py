"""AMQP reply codes for refusals of the queue model: which error closes channel or connection."""

from headrace.queues.refusals import RefusalKind, Refused
from headrace.wire.amqp.reply_codes import AmqpError, ChannelClosing, ConnectionClosing, ReplyCode

_REPLIES: dict[RefusalKind, tuple[type[AmqpError], ReplyCode]] = {
    RefusalKind.ACCESS_REFUSED: (ChannelClosing, ReplyCode.ACCESS_REFUSED),
    RefusalKind.IN_EXCLUSIVE_USE: (ChannelClosing, ReplyCode.ACCESS_REFUSED),
    RefusalKind.NOT_FOUND: (ChannelClosing, ReplyCode.NOT_FOUND),
    RefusalKind.LOCKED: (ChannelClosing, ReplyCode.RESOURCE_LOCKED),
    RefusalKind.PRECONDITION_FAILED: (ChannelClosing, ReplyCode.PRECONDITION_FAILED),
    RefusalKind.INEQUIVALENT: (ChannelClosing, ReplyCode.PRECONDITION_FAILED),
    RefusalKind.LIMIT_REACHED: (ChannelClosing, ReplyCode.PRECONDITION_FAILED),
    RefusalKind.UNSUPPORTED: (ConnectionClosing, ReplyCode.NOT_IMPLEMENTED),
    RefusalKind.CONDITION_UNSUPPORTED: (ConnectionClosing, ReplyCode.NOT_IMPLEMENTED),
    RefusalKind.MALFORMED: (ConnectionClosing, ReplyCode.SYNTAX_ERROR),
    RefusalKind.BROKEN: (ConnectionClosing, ReplyCode.INTERNAL_ERROR),
}


def reply_to(refused: Refused) -> AmqpError:
    """Return the AMQP error, with its reply code, for a refusal of the queue model."""
    closing, code = _REPLIES[refused.kind]
    return closing(code, str(refused))
