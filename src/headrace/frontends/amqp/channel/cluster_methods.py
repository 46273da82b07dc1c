"""Declaring methods in a cluster: commands to the coordinator of the vhost (ADR 76).

The connection's input is held until this broker has applied the command, so that a publish behind
it is routed by it. Passive declarations, and names of direct replies, are answered by this broker.
"""

from typing import TYPE_CHECKING, cast

from headrace.frontends.amqp.channel import direct_replies, queue_methods
from headrace.frontends.amqp.channel.exchange_methods import no_topic
from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import Offset
from headrace.ports.callbacks import when_all
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.model.declarations import ConnectionOwner, QueueCounts
from headrace.queues.model.exchange_topic import stored_in
from headrace.queues.port import NO_INFO, QueueInfo
from headrace.queues.refusals import Refused
from headrace.vhosts.declarations.messages import Result
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.model_methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from headrace.wire.amqp.reply_codes import AmqpError, ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace.frontends.amqp.channel.channel import QueueChannel
    from headrace.ports.callbacks import Done
    from headrace.queues.port import Queue
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
    from headrace.vhosts.declarations.messages import Answer
    from headrace.wire.amqp.methods import Method

    Reopen = Callable[[], None]
    """Has the publishes stored that wait for the deletion of their queue, as it is refused."""

_ANSWERS: dict[type, type] = {
    ExchangeBind: ExchangeBindOk,
    ExchangeDeclare: ExchangeDeclareOk,
    ExchangeDelete: ExchangeDeleteOk,
    ExchangeUnbind: ExchangeUnbindOk,
    QueueBind: QueueBindOk,
    QueueUnbind: QueueUnbindOk,
}
"""The answers of methods that have no fields."""


NO_RESULT = Result(Offset(0))
"""The result of a method that is refused."""


def is_command(method: "Method") -> bool:
    """Tell whether a declaring method changes declarations, as far as its fields say."""
    match method:
        case QueueDeclare(queue=name, passive=passive):
            return not passive and not name.startswith(direct_replies.QUEUE_NAME)
        case ExchangeDeclare(passive=passive):
            return not passive
    return True


def ask(channel: "QueueChannel", method: "Method", declarations: "ClusterDeclarations") -> None:
    """Have the coordinator carry out a method, and answer it. Raises Refused."""
    client = channel.client
    method = _resolved(channel, method)
    release = channel.outlet.hold()
    release_input = channel.outlet.hold_input()
    client.commands += 1

    def end(error: "AmqpError | None", result: Result) -> None:
        release_input()
        if error is None:
            error = _answer(channel, method, result)
        if error is None:
            release(b"")
        else:
            channel.outlet.fail(error, IDS[type(method)])
        client.commands -= 1
        client.commands_answered()

    def answered(answer: "Answer | ApiError") -> None:
        if not isinstance(answer, Result):
            end(_error(answer), NO_RESULT)
        elif isinstance(method, ExchangeDeclare):
            _make_topic(channel, method, answer, lambda error: end(error, answer))
        else:
            end(None, answer)

    def command(counts: QueueCounts, reopen: "Reopen") -> None:
        owner = client.owner
        asked = declarations.command(channel.host.name, method=method)._replace(
            identity=client.identity, counts=counts
        )
        if isinstance(owner, ConnectionOwner):
            asked = asked._replace(epoch=owner.epoch, connection=owner.connection)

        def given(answer: "Answer | ApiError") -> None:
            if not isinstance(answer, Result):
                reopen()
            answered(answer)

        declarations.ask(asked, given)

    if isinstance(method, QueueDelete):
        _counts(channel, method, command)
    else:
        command(QueueCounts(), _nothing)


def _make_topic(
    channel: "QueueChannel",
    method: ExchangeDeclare,
    result: Result,
    done: "Done[AmqpError | None]",
) -> None:
    """Create the Kafka topic that a declared exchange stores in, if it is missing.

    Without it the exchange is deleted again, if it is new.
    """
    stored, declarations = stored_in(method.arguments), channel.client.declarations
    if stored is None or declarations is None:
        done(None)
        return

    def made(error: HeadraceError | None) -> None:
        if error is not None and result.created:
            deletion = ExchangeDelete(exchange=method.exchange)
            command = declarations.command(channel.host.name, method=deletion)
            declarations.ask(command, lambda _: done(no_topic(stored.topic, error)))
        else:
            done(None if error is None else no_topic(stored.topic, error))

    declarations.topics.make(stored.topic, made)


def _resolved(channel: "QueueChannel", method: "Method") -> "Method":
    """Return a method with the queue that an empty name stands for. Raises Refused."""
    match method:
        case QueueBind() | QueueUnbind():
            binding = queue_methods.binding_of(channel, method)
            name, key = binding.destination.name, binding.routing_key
            return method._replace(queue=name, routing_key=key)
        case QueueDelete():
            return method._replace(queue=channel.queue_named(method.queue))
    return method


def _answer(channel: "QueueChannel", method: "Method", result: Result) -> "AmqpError | None":
    """Send the answer of a method that was carried out; return an error instead, if any."""
    if isinstance(method, QueueDeclare):
        is_new = result.created or result.name not in channel.host.model.queues
        info = NO_INFO if is_new else None
        try:
            queue_methods.answer_declared(channel, result.name, info, nowait=method.nowait)
        except Refused as refused:
            return reply_to(refused)
    elif isinstance(method, QueueDelete):
        channel.answer(QueueDeleteOk(result.messages), nowait=method.nowait)
    else:
        nowait: bool = getattr(method, "nowait", False)
        channel.answer(cast("Callable[[], Method]", _ANSWERS[type(method)])(), nowait=nowait)
    return None


def _error(answer: Refused | ApiError) -> AmqpError:
    if isinstance(answer, Refused):
        return reply_to(answer)
    problem = f"the changed declarations could not be stored: {answer}"
    return ConnectionClosing(ReplyCode.INTERNAL_ERROR, problem)


def _counts(
    channel: "QueueChannel", method: QueueDelete, done: "Callable[[QueueCounts, Reopen], None]"
) -> None:
    """Have the leader of a queue count its messages and consumers, for its deletion.

    A leader that does not answer may have messages: as in RabbitMQ, the queue is not empty then.
    With `if_empty` publishes to an empty queue wait from then on: `done` takes the function that
    has them stored, if the queue is not deleted.
    """
    # A single broker has no such queues.
    from headrace.remote_queues.home.remote_queue import RemoteQueue

    reopen: Reopen = _nothing

    def counted(info: QueueInfo | None) -> None:
        if info is None:
            done(QueueCounts(ready=int(method.if_empty)), reopen)
        else:
            done(QueueCounts(info.ready, info.consumers), reopen)

    try:
        queue = channel.host.queue(method.queue, channel.client.owner)
    except (Refused, KeyError):
        counted(NO_INFO)
        return
    if isinstance(queue, RemoteQueue):
        if method.if_empty:
            reopen = queue.reopen
        queue.ask_counts(counted, closes=method.if_empty)
        return
    if method.if_empty and isinstance(queue, HostedQueue) and queue.hold_if_empty():
        reopen = queue.release_publishes
    queue.ask_info(counted)


def _nothing() -> None:
    """Do nothing: no publish waits."""


def _count(queue: "Queue", done: "Done[QueueInfo | None]") -> None:
    """Have a queue's leader count its messages and consumers; None: it does not answer."""
    # A single broker has no such queues.
    from headrace.remote_queues.home.remote_queue import RemoteQueue

    if isinstance(queue, RemoteQueue):
        queue.ask_counts(done)
    else:
        queue.ask_info(done)


def when_closed(
    channel: "QueueChannel", queues: "Collection[Queue]", done: "Callable[[], None]"
) -> None:
    """Call `done` once the auto-delete queues that lost consumers with a channel are deleted.

    As in RabbitMQ, channel.close-ok and connection.close-ok come after that.
    """
    client = channel.client
    if client.declarations is None or not queues:
        done()
        return
    release_input = channel.outlet.hold_input()
    client.commands += 1

    def left() -> None:
        release_input()
        client.commands -= 1
        done()
        client.commands_answered()

    one_left = when_all(len(queues), left)
    for queue in queues:
        when_left(channel, queue, one_left)


def when_left(channel: "QueueChannel", queue: "Queue", done: "Callable[[], None]") -> None:
    """Call `done` once a queue whose consumer was cancelled is deleted, or if it is not to be.

    An auto-delete queue is deleted by its leader with its last consumer.
    """
    declarations, host = channel.client.declarations, channel.host
    declared = host.model.queues.get(queue.name)
    if declarations is None or declared is None or not declared.auto_delete:
        done()
        return

    def counted(info: QueueInfo | None) -> None:
        if info is None or info.consumers:
            done()
        else:
            declarations.when_deleted(host.name, declared, done)

    _count(queue, counted)
