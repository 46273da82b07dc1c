"""basic.publish and publisher confirms: messages go to all queues of a route, or are returned.

Publishes of a channel are numbered, and confirmed in that order, many with one frame. Those of one
pass are a batch: it is confirmed once all queues and topics have stored the batch's persistent
messages. Returns are sent while publishing, so they precede the confirm.
"""

from collections import Counter, deque
from itertools import takewhile
from typing import TYPE_CHECKING

from headrace.frontends.amqp.channel import direct_replies
from headrace.frontends.amqp.channel.open_transaction import Routed
from headrace.queue_stores.queue_settings import Published
from headrace.queues.model.exchange_types.amqp import TOPIC
from headrace.queues.model.exchanges import Exchange
from headrace.queues.model.published_properties import (
    Traits,
    further_keys,
    traits_of,
)
from headrace.queues.model.routing import NackedRoute, StoredRoute
from headrace.queues.permissions.access import Permission
from headrace.queues.port import ALL_UNSTORED
from headrace.queues.refusals import EXCHANGE, precondition_failed
from headrace.vhosts.exchange_topics import check_stored
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.hot import (
    IMMEDIATE,
    MANDATORY,
    PublishRun,
    encode_ack,
    encode_nack,
    encode_return,
)
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.frontends.amqp.channel.channel import QueueChannel
    from headrace.frontends.amqp.connection.ports import Outlet
    from headrace.queues.awaited import Awaited
    from headrace.queues.engine.queue_host import QueueHost


def publish(channel: "QueueChannel", run: PublishRun) -> None:
    """Publish messages in their order; Refused or ConnectionClosing stops at the failing one."""
    if run.flags & IMMEDIATE:
        raise ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
    mandatory = run.flags & MANDATORY == MANDATORY
    transaction, confirms = channel.transaction, channel.confirms
    exchange: str | None = None
    routing_key: str | None = None
    source: Exchange | None = None
    is_mixed = False
    sending = send
    messages = run.messages
    channel.client.publishing(channel)
    try:
        for message in messages:
            if message.exchange is not exchange or message.routing_key is not routing_key:
                exchange, routing_key = message.exchange, message.routing_key
                found = _check(channel, exchange, routing_key)
                if found is not source:
                    if source is not None:
                        is_mixed = True
                    source = found
                    sending = send if found.publish_out is None else send_counted
            routed = _route(channel, message, mandatory)
            if transaction is not None:
                transaction.publish(routed)
                continue
            taken = sending(channel, routed)
            if confirms is not None:
                if not taken:
                    confirms.refused.append(confirms.next)
                confirms.next += 1
            elif not taken:
                _check_kept(channel, routed)
    except Exception:
        # Confirm messages published before the failing one, before the channel closes.
        if transaction is None:
            count(channel, [*takewhile(lambda each: each is not message, messages)])
        if confirms is not None:
            confirms.flush()
        raise
    if transaction is not None:
        return  # counted at the commit
    if is_mixed or source is None:
        count(channel, messages)
    else:
        number = len(messages)
        channel.traffic.publish += number
        source.publish_in += number


def count(channel: "QueueChannel", messages: "Sequence[Message]") -> None:
    """Count accepted publishes of a channel, and of the exchanges that they name."""
    channel.traffic.publish += len(messages)
    exchanges = channel.host.model.exchanges
    for name, number in Counter(message.exchange for message in messages).items():
        if name in exchanges:  # a transaction's may be deleted before its commit
            exchanges[name].publish_in += number


def send_counted(channel: "QueueChannel", routed: Routed) -> bool:
    """Publish a message as `send` does, and count it in `publish_out` if its exchange is read."""
    exchange = channel.host.model.exchanges.get(routed.message.exchange)
    if exchange is not None and exchange.publish_out is not None:
        exchange.publish_out += len(routed.route)
    return send(channel, routed)


def send(channel: "QueueChannel", routed: Routed) -> bool:
    """Publish a message to its route; without one, send basic.return if it is mandatory.

    Return False if a queue has no room or could not store the message, or if this broker lacks the
    type of an exchange.
    """
    if routed.route:
        confirms = channel.confirms
        if confirms is not None:
            return channel.host.publish(
                routed.route, routed.published, confirms.awaited, confirms.next
            )
        awaited = None if channel.transaction is None else channel.transaction.awaited
        return channel.host.publish(routed.route, routed.published, awaited)
    if routed.is_reply:
        return _send_reply(channel, routed)
    _return(channel, routed)
    return routed.route.__class__ is not NackedRoute


def _send_reply(channel: "QueueChannel", routed: Routed) -> bool:
    """Deliver a direct reply; a confirm waits for the answer of another broker.

    Return False if too much is on its way to that broker.
    """
    replies, message = channel.client.replies, routed.published.message
    if replies.deliver(message):
        return True
    elsewhere = replies.of_other_broker(message.routing_key)
    if elsewhere is None:
        _return(channel, routed)
        return True
    if elsewhere.session.is_full:
        return False
    elsewhere.send(message, lambda found: None if found else _return(channel, routed))
    awaiting = channel.confirms or channel.transaction
    if awaiting is not None:
        awaiting.awaited.setdefault(elsewhere, None)
    return True


def _return(channel: "QueueChannel", routed: Routed) -> None:
    """Send a message back (basic.return) if it is mandatory: it has no route."""
    outlet, traffic = channel.outlet, channel.traffic
    if not routed.mandatory:
        traffic.drop_unroutable += 1
        return
    traffic.return_unroutable += 1
    outlet.write(
        encode_return(
            outlet.number,
            ReplyCode.NO_ROUTE,
            ReplyCode.NO_ROUTE.name,
            routed.message,
            outlet.frame_bytes_max,
        )
    )


def _check(channel: "QueueChannel", exchange_name: str, routing_key: str) -> Exchange:
    """Return the exchange of a publish; raise Refused if the client may not publish so."""
    access = channel.client.access
    access.check(Permission.WRITE, EXCHANGE, exchange_name)
    model = channel.host.model
    exchange = model.exchanges.get(exchange_name)
    if exchange is None or exchange.internal:
        exchange = model.check_publish(exchange_name)  # raises with the reason
    if exchange.exchange_type is TOPIC:
        access.check_topic(Permission.WRITE, exchange_name, routing_key)
    return exchange


def _route(channel: "QueueChannel", message: Message, mandatory: bool) -> Routed:
    """Find the route of a message; raise Refused if its properties or headers are invalid."""
    traits = traits_of(message.header)
    returned = message
    more_keys: tuple[str, ...] = ()
    if not traits.plain:
        _check_user(channel, traits)
        if traits.reply_to == direct_replies.ASKED:
            message = direct_replies.as_request(channel, message)
        if traits.headers is not None:
            message, more_keys = further_keys(message, traits.headers)
    route = channel.host.model.router.route(
        message.exchange, message.routing_key, traits.headers, more_keys, returned.header
    )
    if route.__class__ is StoredRoute:
        check_stored(channel.host.targets, channel.client.access, route, message)
    published = Published(message, traits.priority, traits.expiration_ms, traits.persistent)
    is_reply = not route and direct_replies.is_reply(message)
    return Routed(returned, published, route, mandatory, is_reply)


def _check_user(channel: "QueueChannel", traits: Traits) -> None:
    user, claimed = channel.client.user, traits.user_id
    if claimed is not None and claimed != user and not channel.client.impersonates:
        raise precondition_failed(
            f"user_id property set to '{claimed}' but authenticated user was '{user}'"
        )


def _check_kept(channel: "QueueChannel", routed: Routed) -> None:
    """Close the connection if a store failed: without confirms the publisher would not know."""
    for name in routed.route:
        queue = channel.host.targets.get(name)
        if queue is not None and queue.failure is not None:
            raise ConnectionClosing(
                ReplyCode.RESOURCE_ERROR,
                f"{queue.title} could not keep a message: {queue.failure}",
            )


# Confirms


class _Batch:
    """Publishes `first` to `last`, confirmed together."""

    __slots__ = ("first", "last", "lost", "refused", "waits")

    def __init__(self, first: int, last: int, refused: list[int]) -> None:
        self.first = first
        self.last = last
        self.refused = refused
        """Numbers of publishes that a queue refused or could not store: each gets a nack."""
        self.waits = True
        """Whether a queue or topic has not stored all its messages yet."""
        self.lost = False
        """Whether a queue or topic could not store a message: the batch gets a nack."""


class Confirms:
    """The publisher confirms of one channel: numbered publishes, confirmed in order."""

    def __init__(self, outlet: "Outlet", host: "QueueHost") -> None:
        self._outlet = outlet
        self._host = host
        self._nacked = 0
        """Number of publishes that got a nack."""
        self.next = 1
        """The number of the next publish, from 1."""
        self.refused: list[int] = []
        """Numbers of publishes of this pass that a queue refused or could not store."""
        self.awaited: Awaited = {}
        """Queues and topics that report messages of this pass as stored only later."""
        self._first = 1
        self._batches: deque[_Batch] = deque()

    @property
    def confirmed(self) -> int:
        """The number of publishes that were confirmed, without those that got a nack."""
        waiting = self._batches[0].first if self._batches else self._first
        return waiting - 1 - self._nacked

    def flush(self) -> None:
        """End the pass's batch: confirm it at once, or when all its messages are stored."""
        if self.next == self._first:
            return
        batch = _Batch(self._first, self.next - 1, self.refused)
        awaited = self.awaited
        self._first, self.refused, self.awaited = self.next, [], {}
        self._batches.append(batch)

        def stored(unstored: "Collection[int]") -> None:
            batch.waits = False
            if unstored is ALL_UNSTORED:
                batch.lost = True
            elif unstored:
                batch.refused = sorted({*batch.refused, *unstored})
            self._send_ready()

        self._host.when_stored(awaited, stored)

    def _send_ready(self) -> None:
        """Send the confirms of the oldest batches that are complete, in their order."""
        frames: list[bytes] = []
        number = self._outlet.number
        batches = self._batches
        while batches and not batches[0].waits:
            batch = batches.popleft()
            if batch.lost:
                frames.append(encode_nack(number, batch.last, batch.last > batch.first))
                self._nacked += batch.last + 1 - batch.first
                continue
            first = batch.first
            if batch.refused:
                self._nacked += len(batch.refused)
            for refused in batch.refused:
                if refused > first:
                    frames.append(encode_ack(number, refused - 1, refused - 1 > first))
                frames.append(encode_nack(number, refused, False))
                first = refused + 1
            if batch.last >= first:
                frames.append(encode_ack(number, batch.last, batch.last > first))
        if frames:
            self._outlet.write(b"".join(frames))
