"""basic.ack, basic.nack, basic.reject and basic.recover."""

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
    """Settle deliveries in the client's order, or note them in the open transaction.

    ChannelClosing for an unknown tag: settlements before it hold.
    """
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
                # The usual case, a single ack: queues get those of a run in one call.
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
    """Acknowledge (`requeue` None), requeue (True) or reject (False) deliveries."""
    if requeue is None:
        channel.unacked.acknowledge(taken)
    else:
        channel.unacked.settle(Disposition.REQUEUED if requeue else Disposition.REJECTED, taken)


def recover(channel: "QueueChannel", method: BasicRecover | BasicRecoverAsync) -> None:
    """Requeue all unacknowledged deliveries of the channel (basic.recover)."""
    if not method.requeue:
        raise ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    channel.unacked.recover()
    channel.wake()
    channel.answer(BasicRecoverOk(), nowait=isinstance(method, BasicRecoverAsync))


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    BasicRecover: recover,
    BasicRecoverAsync: recover,
}
