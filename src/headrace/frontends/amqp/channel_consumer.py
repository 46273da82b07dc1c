"""A consumer as its channel knows it."""

from typing import TYPE_CHECKING, Any

from headrace.coordination.queues.consumers import Consumer
from headrace.coordination.queues.hosted_queue import HostedQueue
from headrace.wire.amqp.hot import DeliverEncoder

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel import QueueChannel


class ChannelConsumer(Consumer):
    """A consumer with the channel that it is on."""

    __slots__ = ("encode", "hosted", "on")

    def __init__(
        self,
        on: "QueueChannel",
        hosted: HostedQueue,
        tag: str,
        **settings: Any,  # noqa: ANN401 - those of `Consumer`
    ) -> None:
        super().__init__(hosted, on.unacked, tag, **settings)
        self.on = on
        self.hosted = hosted
        outlet = on.outlet
        self.encode = DeliverEncoder(outlet.number, tag, outlet.frame_bytes_max).encode
