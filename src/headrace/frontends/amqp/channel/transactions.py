"""Methods of the classes confirm and tx; a channel is in one of the two modes at most."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel import basic_publish, basic_settle
from headrace.frontends.amqp.channel.open_transaction import Transaction
from headrace.frontends.amqp.replies import reply_to
from headrace.queues.refusals import Refused, precondition_failed
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

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel


def confirm_select(channel: "QueueChannel", method: ConfirmSelect) -> None:
    """Put a channel into confirm mode; raise Refused in tx mode."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = basic_publish.Confirms(channel.outlet, channel.host)
    channel.answer(ConfirmSelectOk(), nowait=method.nowait)


def tx_select(channel: "QueueChannel", _: TxSelect) -> None:
    """Put a channel into tx mode; raise Refused in confirm mode."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.client.note_unfinished)
    channel.answer(TxSelectOk())


def tx_commit(channel: "QueueChannel", method: TxCommit) -> None:
    """Commit publishes and settlements; answered once all are stored.

    Raises Refused if a queue refused a message.
    """
    transaction = _transaction(channel)
    publishes = transaction.take_publishes()
    settled, transaction.settled = transaction.settled, []
    basic_publish.count(channel, [routed.message for routed in publishes])
    taken = [basic_publish.send_counted(channel, routed) for routed in publishes]
    for requeue, held in settled:
        basic_settle.act(channel, [each for _, each in held], requeue)
    channel.wake()
    if not all(taken):
        raise _partial()
    awaited, transaction.awaited = transaction.awaited, {}

    def stored(unstored: Collection[int]) -> None:
        if unstored:
            channel.outlet.fail(reply_to(_partial()), IDS[type(method)])
        else:
            channel.answer(TxCommitOk())

    channel.host.when_stored(awaited, stored)


def tx_rollback(channel: "QueueChannel", _: TxRollback) -> None:
    """Discard publishes and settlements since the last commit."""
    _transaction(channel).roll_back(channel.unacked)
    channel.answer(TxRollbackOk())


def _transaction(channel: "QueueChannel") -> Transaction:
    if channel.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.transaction


def _partial() -> Refused:
    return precondition_failed("partial tx completion")


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    ConfirmSelect: confirm_select,
    TxSelect: tx_select,
    TxCommit: tx_commit,
    TxRollback: tx_rollback,
}
