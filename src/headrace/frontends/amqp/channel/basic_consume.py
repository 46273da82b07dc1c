"""basic.consume, basic.cancel, basic.get and basic.qos."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel import direct_replies
from headrace.frontends.amqp.channel.cluster_methods import when_left
from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import HeadraceError
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.engine.dead_messages import WEIGHT_AT, as_delivered
from headrace.queues.model.arguments import consumer_settings
from headrace.queues.permissions.access import Access, Permission
from headrace.queues.port import Consumer, Getter, Got, Queue
from headrace.queues.refusals import KAFKA_TOPIC, Refused, precondition_failed
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.hot import DeliverEncoder, encode_get_ok
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
)
from headrace.wire.amqp.reply_codes import ChannelClosing, ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel

SERVER_TAG_PREFIX = "amq.ctag-"


class ChannelConsumer(Consumer):
    """A consumer of a channel, with the encoder of its deliveries."""

    __slots__ = ("encode", "on")

    def __init__(
        self,
        on: "QueueChannel",
        queue: Queue,
        tag: str,
        **settings: Any,  # noqa: ANN401 - those of `Consumer`
    ) -> None:
        super().__init__(queue, on.unacked, tag, **settings)
        self.on = on
        outlet = on.outlet
        self.encode = DeliverEncoder(outlet.number, tag, outlet.frame_bytes_max).encode
        if queue.settings.topic is not None:
            self.encode = partial(self._encode_allowed, self.encode)

    def check_topic(self, access: Access) -> None:
        """Raise Refused unless the user may still read the Kafka topic of the consumer's stream."""
        read = self.queue.settings.topic
        if read is not None:
            access.check(Permission.READ, KAFKA_TOPIC, read.topic)

    def _encode_allowed(
        self, encode: Callable[[int, bool, Message], bytes], tag: int, again: bool, message: Message
    ) -> bytes:
        """Encode a delivery, if the topic may still be read; otherwise close the channel.

        Kafka checks each fetch the same way.
        """
        try:
            self.check_topic(self.on.client.access)
        except Refused as refused:
            self.on.outlet.fail(reply_to(refused), IDS[BasicConsume])
            return b""
        return encode(tag, again, message)


def consume(channel: "QueueChannel", method: BasicConsume) -> None:
    """Register a consumer (basic.consume); raise Refused, ChannelClosing or ConnectionClosing.

    ConnectionClosing NOT_ALLOWED: the channel has a consumer of that tag, or too many consumers.
    """
    tag = method.consumer_tag
    if tag and (tag in channel.consumers or tag == channel.reply_tag):
        raise ConnectionClosing(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == direct_replies.QUEUE_NAME:
        _consume_replies(channel, method)
        return
    most = channel.client.bounds.channel_consumers_max
    if 0 < most <= len(channel.consumers):
        raise ConnectionClosing(
            ReplyCode.NOT_ALLOWED, f"reached maximum ({most}) of consumers per channel"
        )
    channel.client.held_consumers.check()
    queue = channel.readable_queue(method.queue, "basic.consume")
    channel.host.check_reads(queue, channel.client.access)
    queue_type = queue.settings.queue_type
    settings = consumer_settings(method.arguments, queue_type, queue.title)
    if channel.unacked.prefetch and queue_type is QueueType.QUORUM:
        raise ConnectionClosing(
            ReplyCode.NOT_IMPLEMENTED, f"{queue.title} does not support global qos"
        )
    consumer = ChannelConsumer(
        channel,
        queue,
        tag or _server_tag(channel),
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        prefetch=channel.prefetch,
        priority=settings.priority,
        wishes=settings,
    )
    answered = channel.answer_later(nowait=method.nowait)

    def consuming(refused: Refused | None) -> None:
        if refused is None:
            answered(BasicConsumeOk(consumer.tag))
        else:
            channel.outlet.fail(reply_to(refused), IDS[BasicConsume])

    try:
        channel.host.consume(consumer, consuming)
    except Refused:
        answered(None)
        raise
    channel.consumers.add(consumer)


def _consume_replies(channel: "QueueChannel", method: BasicConsume) -> None:
    """Register the channel for direct replies (basic.consume of `amq.rabbitmq.reply-to`)."""
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_tag is not None:
        raise precondition_failed("reply consumer already set")
    channel.reply_tag = method.consumer_tag or _server_tag(channel)
    channel.client.replies.begin(channel)
    channel.answer(BasicConsumeOk(channel.reply_tag), nowait=method.nowait)


def forget_replies(channel: "QueueChannel") -> None:
    """End the channel's consumer of direct replies, if any."""
    if channel.reply_tag is not None:
        channel.reply_tag = None
        channel.client.replies.end(channel)


def cancel(channel: "QueueChannel", method: BasicCancel) -> None:
    """Cancel a consumer (basic.cancel); the answer is the same for an unknown tag."""
    tag = method.consumer_tag
    consumer = channel.consumers.take(tag)
    if consumer is not None:
        channel.host.cancel(consumer)
        if channel.client.declarations is not None:
            _answer_deleted(channel, method, consumer.queue)
            return
    elif tag == channel.reply_tag:
        forget_replies(channel)
    channel.answer(BasicCancelOk(tag), nowait=method.nowait)


def _answer_deleted(channel: "QueueChannel", method: BasicCancel, queue: Queue) -> None:
    """Answer basic.cancel; as in RabbitMQ, an auto-delete queue has gone with its last consumer."""
    answered = channel.answer_later(nowait=method.nowait)
    when_left(channel, queue, lambda: answered(BasicCancelOk(method.consumer_tag)))


def get(channel: "QueueChannel", method: BasicGet) -> None:
    """Answer basic.get with the next message, or with get-empty, once the message is loaded."""
    queue = channel.readable_queue(method.queue, "basic.get")
    settings = queue.settings
    if settings.single_active_consumer and settings.queue_type is QueueType.QUORUM:
        raise ChannelClosing(
            ReplyCode.RESOURCE_LOCKED,
            f"cannot obtain access to locked {queue.title}. basic.get operations are not supported"
            " by quorum queues with single active consumer",
        )
    release = channel.outlet.hold()

    consumer = Consumer(queue, channel.unacked, "", no_ack=method.no_ack, counted=False)

    def given(got: Got | HeadraceError | None) -> None:
        if isinstance(got, Refused):
            channel.outlet.fail(reply_to(got), IDS[type(method)])
            return
        if isinstance(got, HeadraceError):
            problem = f"{queue.title} cannot be read: {got}"
            channel.outlet.fail(
                ConnectionClosing(ReplyCode.INTERNAL_ERROR, problem), IDS[type(method)]
            )
            return
        release(_get_answer(channel, consumer, got))
        if got is not None:
            channel.client.holding(channel)

    queue.get(Getter(consumer, given), channel.client.now())
    channel.host.touched((queue,))


def _get_answer(channel: "QueueChannel", consumer: Consumer, got: Got | None) -> bytes:
    outlet = channel.outlet
    if got is None:
        channel.traffic.get_empty += 1
        return encode_method(outlet.number, BasicGetEmpty())
    _, (message,), _, redelivered, returns = got.deliveries
    tag = channel.unacked.got(consumer, got.deliveries, channel.client.now())
    if returns or message.header[WEIGHT_AT]:
        message = as_delivered(message, 0 if returns is None else returns[0])
    return encode_get_ok(
        outlet.number, tag, redelivered, message, got.ready, outlet.frame_bytes_max
    )


def qos(channel: "QueueChannel", method: BasicQos) -> None:
    """Set the prefetch limit (basic.qos), of new consumers or, if global, of the whole channel."""
    if method.prefetch_size:
        raise ConnectionClosing(
            ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})"
        )
    # As in RabbitMQ, a limit for each consumer removes the channel's own limit.
    channel.unacked.set_prefetch(method.prefetch_count if method.global_ else 0)
    channel.wake()
    if not method.global_:
        channel.prefetch = method.prefetch_count
    channel.answer(BasicQosOk())


def _server_tag(channel: "QueueChannel") -> str:
    random = urlsafe_b64encode(channel.client.random_bytes()).decode("ascii")
    return f"{SERVER_TAG_PREFIX}{random.rstrip('=')}"


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    BasicConsume: consume,
    BasicCancel: cancel,
    BasicGet: get,
    BasicQos: qos,
}
