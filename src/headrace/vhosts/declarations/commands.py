"""Commands carried out on a vhost's model, with RabbitMQ's checks, as for a single broker."""

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.model.invariant import InvariantError
from headrace.model.nouns import Offset
from headrace.queues.model.declarations import (
    ConnectionOwner,
    DeclaredQueue,
    ExchangeFlags,
    Owner,
    QueueFlags,
)
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.stored_model import exchange_record
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.permissions.access import FULL_ACCESS, Access
from headrace.queues.refusals import (
    EXCHANGE,
    QUEUE,
    not_found,
    precondition_failed,
    resource_text,
)
from headrace.vhosts.declarations.messages import Command, CommandKind, Result
from headrace.vhosts.policies.commands import PolicyChange, change_policies
from headrace.wire.amqp.model_methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)


class Client(NamedTuple):
    """The client of a command."""

    owner: Owner | None
    access: Access


def carry_out(
    model: VirtualHost, command: Command, now_ms: int, access: Access = FULL_ACCESS
) -> Result:
    """Change a vhost's model as a command says, at the wall time `now_ms`. Refused: no change.

    The offset of the result is not known yet.
    """
    method = command.method
    match command.kind:
        case CommandKind.CONNECTION_CLOSED:
            model.connection_closed(_owner(command))
        case CommandKind.VHOST_DELETED:
            for name in list(model.queues):
                model.remove_queue(name)
            for exchange in list(model.exchanges.values()):
                if exchange_record(exchange, transient=True) is not None:
                    model.delete_exchange(exchange.name)
            change_policies(model, [PolicyChange(each, None) for each in model.policies], now_ms)
        case CommandKind.POLICIES:
            change_policies(model, command.policies, now_ms)
        case CommandKind.QUEUE_ENDED if isinstance(method, QueueDelete):
            if method.queue in model.queues:
                model.remove_queue(method.queue)
        case CommandKind.QUEUE_REPLICAS if isinstance(method, QueueDeclare):
            model.kept.added(model, _durable(model, method.queue))
        case CommandKind.METHOD if type(method) in _METHODS:
            owner = _owner(command) if command.connection else None
            return _METHODS[type(method)](model, command, method, Client(owner, access))
        case _:
            raise InvariantError(f"{method!r} is no command of kind {command.kind.name}")
    return _DONE


def is_known(command: Command) -> bool:
    """Tell whether `carry_out` knows a command of another broker."""
    if command.kind is CommandKind.METHOD:
        return type(command.method) in _METHODS
    kind = _METHOD_OF.get(command.kind)
    return kind is None or isinstance(command.method, kind)


_METHOD_OF = {CommandKind.QUEUE_ENDED: QueueDelete, CommandKind.QUEUE_REPLICAS: QueueDeclare}
"""The methods that name the queues of other commands."""
_DONE = Result(Offset(0))


def _owner(command: Command) -> ConnectionOwner:
    return ConnectionOwner(command.broker, command.epoch, command.connection)


def _durable(model: VirtualHost, name: str) -> DeclaredQueue:
    """Return a durable queue. Refused: it does not exist, or has no replicas."""
    queue = model.queues.get(name)
    named = resource_text(QUEUE, name, model.name)
    if queue is None:
        raise not_found(QUEUE, named)
    if not queue.durable:
        raise precondition_failed(f"{named} has no replicas", QUEUE)
    return queue


def _declare_queue(
    model: VirtualHost, command: Command, method: QueueDeclare, client: Client
) -> Result:
    flags = QueueFlags(method.durable, method.exclusive, method.auto_delete)
    queue, created = model.declare_queue(
        method.queue, flags, method.arguments, client.owner, client.access
    )
    return Result(Offset(0), queue.name, created)


def _delete_queue(
    model: VirtualHost, command: Command, method: QueueDelete, client: Client
) -> Result:
    removed = model.delete_queue(
        method.queue,
        client.owner,
        command.counts,
        if_unused=method.if_unused,
        if_empty=method.if_empty,
        access=client.access,
    )
    return Result(Offset(0), messages=command.counts.ready if removed.queues else 0)


def _declare_exchange(
    model: VirtualHost, command: Command, method: ExchangeDeclare, client: Client
) -> Result:
    flags = ExchangeFlags(method.durable, method.auto_delete, method.internal)
    created = model.declare_exchange(
        method.exchange, method.type, flags, method.arguments, client.access
    )
    return Result(Offset(0), created=created)


def _delete_exchange(
    model: VirtualHost, command: Command, method: ExchangeDelete, client: Client
) -> Result:
    model.delete_exchange(method.exchange, if_unused=method.if_unused, access=client.access)
    return _DONE


def _bind(
    model: VirtualHost, command: Command, method: QueueBind | ExchangeBind, client: Client
) -> Result:
    return Result(Offset(0), created=model.bind(_binding(method), client.owner, client.access))


def _unbind(
    model: VirtualHost, command: Command, method: QueueUnbind | ExchangeUnbind, client: Client
) -> Result:
    model.unbind(_binding(method), client.owner, client.access)
    return _DONE


def _binding(method: QueueBind | QueueUnbind | ExchangeBind | ExchangeUnbind) -> Binding:
    if isinstance(method, QueueBind | QueueUnbind):
        source, destination = method.exchange, Destination(QUEUE, method.queue)
    else:
        source, destination = method.source, Destination(EXCHANGE, method.destination)
    return Binding(source, destination, method.routing_key, method.arguments)


_METHODS: dict[type, Callable[[VirtualHost, Command, Any, Client], Result]] = {
    QueueDeclare: _declare_queue,
    QueueDelete: _delete_queue,
    QueueBind: _bind,
    QueueUnbind: _unbind,
    ExchangeDeclare: _declare_exchange,
    ExchangeDelete: _delete_exchange,
    ExchangeBind: _bind,
    ExchangeUnbind: _unbind,
}
