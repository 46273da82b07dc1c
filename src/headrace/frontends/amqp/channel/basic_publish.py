"""basic.publish: a message goes to all queues of its route, or comes back, or is refused."""

from headrace.frontends.amqp.channel import direct_replies
from headrace.frontends.amqp.channel.channel import QueueChannel
from headrace.frontends.amqp.channel.open_transaction import Routed
from headrace.queues.model.exchanges import ExchangeType
from headrace.queues.model.published_properties import (
    Traits,
    further_keys,
    headers_getter,
    traits_of,
)
from headrace.queues.model.routing import StoredRoute, no_headers
from headrace.queues.permissions.access import Permission
from headrace.queues.queue_settings import Published
from headrace.queues.refusals import EXCHANGE, precondition_failed
from headrace.vhosts.exchange_topics import check_stored
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import IMMEDIATE, MANDATORY, PublishRun, encode_return
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode


def publish(channel: QueueChannel, run: PublishRun) -> None:
    """Take messages, in their order. Refused, ConnectionClosing: from there on none."""
    if run.flags & IMMEDIATE:
        raise ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
    mandatory = run.flags & MANDATORY == MANDATORY
    transaction, confirms = channel.transaction, channel.confirms
    exchange: str | None = None
    routing_key: str | None = None
    channel.client.publishing(channel)
    try:
        for message in run.messages:
            if message.exchange is not exchange or message.routing_key is not routing_key:
                exchange, routing_key = message.exchange, message.routing_key
                _check(channel, exchange, routing_key)
            routed = _route(channel, message, mandatory)
            if transaction is not None:
                transaction.publish(routed)
                continue
            taken = send(channel, routed)
            if confirms is not None:
                if not taken:
                    confirms.refused.append(confirms.next)
                confirms.next += 1
            elif not taken:
                _check_kept(channel, routed)
    except Exception:
        # What was taken before is confirmed before the channel closes.
        if confirms is not None:
            confirms.flush()
        raise


def send(channel: QueueChannel, routed: Routed) -> bool:
    """Give a message to its queues, or back; False: one of them has no room for it."""
    if routed.route:
        confirms = channel.confirms
        awaited = None if confirms is None else confirms.awaited
        if channel.transaction is not None:
            awaited = channel.transaction.awaited
        return channel.host.publish(routed.route, routed.published, awaited)
    if routed.is_reply and channel.client.replies.deliver(routed.published.message):
        return True
    if routed.mandatory:
        outlet = channel.outlet
        outlet.write(
            encode_return(
                outlet.number,
                ReplyCode.NO_ROUTE,
                ReplyCode.NO_ROUTE.name,
                routed.message,
                outlet.frame_bytes_max,
            )
        )
    return True


def _check(channel: QueueChannel, exchange_name: str, routing_key: str) -> None:
    """Raise Refused where the client may not publish there."""
    access = channel.client.access
    access.check(Permission.WRITE, EXCHANGE, exchange_name)
    exchange = channel.host.model.check_publish(exchange_name)
    if exchange.exchange_type is ExchangeType.TOPIC:
        access.check_topic(Permission.WRITE, exchange_name, routing_key)


def _route(channel: QueueChannel, message: Message, mandatory: bool) -> Routed:
    """Find where a message goes. Refused where it says what cannot be."""
    traits = traits_of(message.header)
    returned, headers = message, no_headers
    more_keys: tuple[str, ...] = ()
    if not traits.plain:
        _check_user(channel, traits)
        if traits.reply_to == direct_replies.ASKED:
            message = direct_replies.as_request(channel, message)
        if traits.headers is not None:
            message, more_keys = further_keys(message, traits.headers)
            headers = headers_getter(traits.headers)
    route = channel.host.model.router.route(
        message.exchange, message.routing_key, headers, more_keys
    )
    if route.__class__ is StoredRoute:
        check_stored(channel.host.targets, channel.client.access, route, message)
    published = Published(message, traits.priority, traits.expiration_ms, traits.persistent)
    is_reply = not route and direct_replies.is_reply(message)
    return Routed(returned, published, route, mandatory, is_reply)


def _check_user(channel: QueueChannel, traits: Traits) -> None:
    user, claimed = channel.client.user, traits.user_id
    if claimed is not None and claimed != user and not channel.client.impersonates:
        raise precondition_failed(
            f"user_id property set to '{claimed}' but authenticated user was '{user}'"
        )


def _check_kept(channel: QueueChannel, routed: Routed) -> None:
    """Close where a store could not take a message: who asks for no confirms would not know."""
    for name in routed.route:
        queue = channel.host.targets.get(name)
        if queue is not None and queue.failure is not None:
            failure, queue.failure = queue.failure, None
            raise ConnectionClosing(
                ReplyCode.RESOURCE_ERROR, f"{queue.title} could not keep a message: {failure}"
            )
