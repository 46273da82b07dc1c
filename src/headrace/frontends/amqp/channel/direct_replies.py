"""Direct replies: a channel receives answers without a queue (RabbitMQ's "Direct Reply-to").

A channel consumes from `amq.rabbitmq.reply-to` and publishes requests with that name as `reply-to`.
The broker replaces the name by one that is valid for this channel only; the responder publishes its
answer to that name.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.queues.refusals import precondition_failed
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import DeliverEncoder
from headrace.wire.amqp.properties import with_text

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel

QUEUE_NAME = "amq.rabbitmq.reply-to"
_PREFIX = f"{QUEUE_NAME}."
ASKED = QUEUE_NAME.encode("ascii")
"""The `reply-to` of a request whose client wants a direct reply."""


class DirectReplies:
    """Channels that consume direct replies, by their generated reply names."""

    def __init__(self, random_bytes: Callable[[], bytes]) -> None:
        self._random_bytes = random_bytes
        self._channels: dict[str, QueueChannel] = {}

    def begin(self, channel: "QueueChannel") -> None:
        """Give a channel a reply name of its own, for direct replies."""
        random = urlsafe_b64encode(self._random_bytes()).decode("ascii").rstrip("=")
        channel.reply_token = f"{_PREFIX}{random}"
        self._channels[channel.reply_token] = channel

    def end(self, channel: "QueueChannel") -> None:
        """Invalidate a channel's reply name: direct replies to it are dropped."""
        self._channels.pop(channel.reply_token, None)

    def channel_of(self, name: str) -> "QueueChannel | None":
        """Return the channel that a direct reply name belongs to, or None."""
        return self._channels.get(name)

    def deliver(self, message: Message) -> bool:
        """Send a reply to the channel that its routing key names; False: no such channel."""
        channel = self._channels.get(message.routing_key)
        if channel is None or channel.reply_tag is None:
            return False
        unacked, outlet = channel.unacked, channel.outlet
        tag = unacked.next_tag
        unacked.next_tag = tag + 1
        encoder = DeliverEncoder(outlet.number, channel.reply_tag, outlet.frame_bytes_max)
        outlet.write(encoder.encode(tag, False, message))
        return True


def is_reply(message: Message) -> bool:
    """Tell whether a message is published to a name for direct replies."""
    return not message.exchange and message.routing_key.startswith(_PREFIX)


def as_request(channel: "QueueChannel", message: Message) -> Message:
    """Return a request with its channel's reply name as `reply-to`; raise Refused without one."""
    if channel.reply_tag is None:
        raise precondition_failed("fast reply consumer does not exist")
    header = with_text(message.header, "reply_to", channel.reply_token)
    return Message(message.exchange, message.routing_key, header, message.body)
