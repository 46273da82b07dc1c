"""The classes confirm and tx: a channel is in one of these modes, or in none."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.coordination.queues.refusals import precondition_failed
from headrace.frontends.amqp import basic_publish, basic_settle
from headrace.frontends.amqp.confirms import Confirms
from headrace.wire.amqp.control_methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.hot import Settlement
from headrace.wire.amqp.reply_codes import ChannelClosing

if TYPE_CHECKING:
    from headrace.coordination.queues.hosted_queue import HostedQueue
    from headrace.coordination.queues.unacked import Held
    from headrace.frontends.amqp.channel import QueueChannel


class Transaction:
    """What a channel publishes and settles until it commits."""

    def __init__(self) -> None:
        self.publishes: list[basic_publish.Routed] = []
        self.settled: list[tuple[bool | None, list[tuple[int, Held]]]] = []
        """`requeue` as in Settlement, and what was taken out, by tags."""
        self.awaited: dict[HostedQueue, None] = {}
        """Queues that keep what is committed later."""

    def settle(self, channel: "QueueChannel", settlement: Settlement) -> None:
        """Note an ack, a nack or a reject. ChannelClosing: there is no such delivery."""
        _, tag, multiple, requeue = settlement
        held = channel.unacked.held
        before = dict(held) if multiple else {tag: held[tag]} if tag in held else {}
        channel.unacked.take(tag, multiple=multiple)
        taken = [(each, before[each]) for each in before if each not in held]
        self.settled.append((requeue, taken))

    def roll_back(self, channel: "QueueChannel") -> None:
        """Forget what was published, and hold again what was settled."""
        self.publishes.clear()
        channel.unacked.give_back([held for _, taken in self.settled for held in taken])
        self.settled.clear()


def confirm_select(channel: "QueueChannel", method: ConfirmSelect) -> None:
    """Number publishes from now on, and confirm them."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms(channel.outlet)
    channel.answer(ConfirmSelectOk(), nowait=method.nowait)


def tx_select(channel: "QueueChannel", _: TxSelect) -> None:
    """Do from now on only with a commit what the client publishes and settles."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.answer(TxSelectOk())


def tx_commit(channel: "QueueChannel", method: TxCommit) -> None:
    """Publish and settle; answered once every store keeps it. ChannelClosing: not all was taken."""
    transaction = _transaction(channel)
    publishes, transaction.publishes = transaction.publishes, []
    settled, transaction.settled = transaction.settled, []
    taken = [basic_publish.send(channel, routed) for routed in publishes]
    for requeue, held in settled:
        basic_settle.act(channel, [each for _, each in held], requeue)
    channel.wake()
    if not all(taken):
        raise _partial()
    stores = [store for queue in transaction.awaited for store in queue.late_stores]
    transaction.awaited = {}
    if not stores:
        channel.answer(TxCommitOk())
        return
    left = len(stores)

    def stored(kept: bool) -> None:
        nonlocal left
        left -= 1
        if not kept:
            channel.outlet.fail(_partial(), IDS[type(method)])
        elif not left:
            channel.answer(TxCommitOk())

    for store in stores:
        store.when_stored(stored)


def tx_rollback(channel: "QueueChannel", _: TxRollback) -> None:
    """Forget what was published and settled since the last commit."""
    _transaction(channel).roll_back(channel)
    channel.answer(TxRollbackOk())


def _transaction(channel: "QueueChannel") -> Transaction:
    if channel.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.transaction


def _partial() -> ChannelClosing:
    return precondition_failed("partial tx completion")


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    ConfirmSelect: confirm_select,
    TxSelect: tx_select,
    TxCommit: tx_commit,
    TxRollback: tx_rollback,
}
