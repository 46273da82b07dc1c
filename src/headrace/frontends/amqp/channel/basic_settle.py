"""basic.ack, nack, reject and recover: what became of messages that were delivered."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel.unacked import Held
from headrace.queues.port import Disposition
from headrace.wire.amqp.hot import Settlement
from headrace.wire.amqp.model_methods import BasicRecover, BasicRecoverAsync, BasicRecoverOk
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel


def settle(channel: "QueueChannel", settlements: list[Settlement]) -> None:
    """Take acks, nacks and rejects, in their order. ChannelClosing: from there on none."""
    if channel.transaction is not None:
        for settlement in settlements:
            channel.transaction.settle(channel.unacked, settlement)
        return
    unacked = channel.unacked
    held = unacked.held
    acked: list[Held] = []
    try:
        for _, tag, multiple, requeue in settlements:
            if requeue is None and not multiple and tag in held:
                # Most acknowledgements are these: their queues are told of many at once.
                acked.append(held.pop(tag))
                continue
            if acked:
                unacked.acknowledge(acked)
                acked = []
            act(channel, unacked.take(tag, multiple=multiple), requeue)
    finally:
        if acked:
            unacked.acknowledge(acked)
        channel.wake()


def act(channel: "QueueChannel", taken: list[Held], requeue: bool | None) -> None:
    """Acknowledge (None), put back or let die what was taken out."""
    if requeue is None:
        channel.unacked.acknowledge(taken)
    else:
        channel.unacked.settle(Disposition.REQUEUED if requeue else Disposition.REJECTED, taken)


def recover(channel: "QueueChannel", method: BasicRecover | BasicRecoverAsync) -> None:
    """Put all that the channel holds back to its place."""
    if not method.requeue:
        raise ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    channel.unacked.recover()
    channel.wake()
    channel.answer(BasicRecoverOk(), nowait=isinstance(method, BasicRecoverAsync))


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    BasicRecover: recover,
    BasicRecoverAsync: recover,
}
