"""Direct replies: a channel receives answers without a queue (RabbitMQ's "Direct Reply-to").

A channel consumes from `amq.rabbitmq.reply-to` and publishes requests with that name as `reply-to`.
The broker replaces the name by one that is valid for this channel only; the responder publishes its
answer to that name. In a cluster the name ends with the number of the channel's broker.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.model.nouns import BrokerId
from headrace.queues.refusals import precondition_failed
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import DeliverEncoder
from headrace.wire.amqp.properties import Properties, make_header, with_text

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel
    from headrace.remote_queues.home.replies_elsewhere import RemoteReplies, RepliesElsewhere

QUEUE_NAME = "amq.rabbitmq.reply-to"
_PREFIX = f"{QUEUE_NAME}."
ASKED = QUEUE_NAME.encode("ascii")
"""The `reply-to` of a request whose client wants a direct reply."""


class DirectReplies:
    """Channels that consume direct replies, by their generated reply names."""

    def __init__(self, random_bytes: Callable[[], bytes]) -> None:
        self._random_bytes = random_bytes
        self._channels: dict[str, QueueChannel] = {}
        self.elsewhere: RepliesElsewhere | None = None
        """Replies to channels of other brokers; None: there is no other broker."""

    def begin(self, channel: "QueueChannel") -> None:
        """Give a channel a reply name of its own, for direct replies."""
        random = urlsafe_b64encode(self._random_bytes()).decode("ascii").rstrip("=")
        home = "" if self.elsewhere is None else f".{self.elsewhere.own}"
        channel.reply_token = f"{_PREFIX}{random}{home}"
        self._channels[channel.reply_token] = channel

    def end(self, channel: "QueueChannel") -> None:
        """Invalidate a channel's reply name: direct replies to it are dropped."""
        self._channels.pop(channel.reply_token, None)

    def channel_of(self, name: str) -> "QueueChannel | None":
        """Return the channel that a direct reply name belongs to, or None."""
        return self._channels.get(name)

    def of_other_broker(self, name: str) -> "RemoteReplies | None":
        """Return the replies to channels of the broker that a name ends with.

        None: that is this broker, or it is not registered.
        """
        home = name.removeprefix(_PREFIX).rpartition(".")[2]
        if self.elsewhere is None or not (home.isascii() and home.isdecimal()):
            return None
        broker = BrokerId(int(home))
        return None if broker == self.elsewhere.own else self.elsewhere.to(broker)

    def deliver(self, message: Message, asks: bool = False) -> bool:
        """Send a reply to the channel that its routing key names; False: no such channel.

        `asks`: nothing is sent. Implements `leader_session.DeliverReply`.
        """
        channel = self._channels.get(message.routing_key)
        if channel is None or channel.reply_tag is None:
            return False
        if asks:
            return True
        unacked, outlet = channel.unacked, channel.outlet
        tag = unacked.next_tag
        unacked.next_tag = tag + 1
        encoder = DeliverEncoder(outlet.number, channel.reply_tag, outlet.frame_bytes_max)
        outlet.write(encoder.encode(tag, False, message))
        return True


def is_reply(message: Message) -> bool:
    """Tell whether a message is published to a name for direct replies."""
    return not message.exchange and message.routing_key.startswith(_PREFIX)


def question(name: str) -> Message:
    """Return a reply that asks for the channel of a name."""
    return Message("", name, make_header(0, Properties()), b"")


def as_request(channel: "QueueChannel", message: Message) -> Message:
    """Return a request with its channel's reply name as `reply-to`; raise Refused without one."""
    if channel.reply_tag is None:
        raise precondition_failed("fast reply consumer does not exist")
    header = with_text(message.header, "reply_to", channel.reply_token)
    return Message(message.exchange, message.routing_key, header, message.body)
