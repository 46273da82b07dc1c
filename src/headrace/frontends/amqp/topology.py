"""Administrators' changes of a vhost's exchanges, queues and bindings.

Executed by the methods of AMQP, with their rules, limits and texts. In addition, an object to be
deleted or purged must exist, and a condition that AMQP ignores for an object is refused. Bindings
are deleted as lists show them.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from headrace.frontends.amqp.admin_methods import as_client_sends, do_method
from headrace.frontends.amqp.channel import direct_replies
from headrace.frontends.amqp.listing import no_vhost, plain
from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.permissions import Caller, Surface
from headrace.operations.queues import (
    BindingCreated,
    CreateBinding,
    DeclareExchange,
    DeclareQueue,
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    ExchangeDeclared,
    OperationRefused,
    PurgeQueue,
    QueueDeclared,
)
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.refusals import (
    BINDING,
    EXCHANGE,
    QUEUE,
    RefusalKind,
    Refused,
    not_found,
    refused,
    resource_text,
)
from headrace.wire.amqp.field_table import TABLE_DEPTH_MAX, FieldTable, FieldValue, Long
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from headrace.wire.amqp.reply_codes import AmqpError, ReplyCode

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.registry import Do
    from headrace.queues.engine.queue_host import QueueHost

_INT64 = range(-(1 << 63), 1 << 63)
_CODES = {
    ReplyCode.NOT_FOUND: ErrorCode.RESOURCE_NOT_FOUND,
    ReplyCode.INTERNAL_ERROR: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Kafka's error codes for AMQP's reply codes; INVALID_REQUEST for the others."""
_LISTED = frozenset((QUEUE, EXCHANGE, BINDING))
_REMEDIES = {
    RefusalKind.LOCKED: "the connection that owns it takes it along when it ends: headrace amqp"
    " connection close",
    RefusalKind.INEQUIVALENT: "declare it as it is, or delete it first",
    RefusalKind.LIMIT_REACHED: "headrace amqp vhost alter --max-queues allows more",
    RefusalKind.CONDITION_UNSUPPORTED: "leave the flag out to delete it",
    RefusalKind.UNSUPPORTED: "headrace topic trim shortens a stream, by the name of its topic",
}
"""Remedies for refusals, by kind, which follow RabbitMQ's text in an error."""


class Topology:
    """Changes of exchanges, queues and bindings of all vhosts. On the deciding thread."""

    def __init__(self, queues: "QueueBroker") -> None:
        self._queues = queues
        self.operations: dict[type[Arguments[Any]], Do] = {
            DeclareQueue: self._declare_queue,
            DeleteQueue: self._delete_queue,
            PurgeQueue: self._purge_queue,
            DeclareExchange: self._declare_exchange,
            DeleteExchange: self._delete_exchange,
            CreateBinding: self._create_binding,
            DeleteBinding: self._delete_bindings,
        }

    # queues

    async def _declare_queue(self, caller: Caller, asked: DeclareQueue) -> QueueDeclared:
        host = self._host(asked.vhost)
        method = QueueDeclare(
            queue=_name("name", asked.name),
            durable=asked.durable,
            auto_delete=asked.auto_delete,
            arguments=_table(asked.arguments),
        )
        if method.queue.startswith(direct_replies.QUEUE_NAME):
            # A client's declaration would succeed; an administrator has no channel for replies.
            problem = f"'{method.queue}' is not a queue: the name is reserved for direct replies"
            raise _refusal(refused(problem))
        created = method.queue not in host.model.queues
        declared = await self._do(caller, host, method)
        return QueueDeclared(
            declared.queue, created, declared.message_count, declared.consumer_count
        )

    async def _delete_queue(self, caller: Caller, asked: DeleteQueue) -> int:
        host, name = self._host(asked.vhost), _name("name", asked.name)
        if_unused, if_empty = asked.if_unused, asked.if_empty
        queue = host.model.queues.get(name)
        if queue is None:
            raise _refusal(not_found(QUEUE, resource_text(QUEUE, name, host.name)))
        if queue.settings.queue_type is QueueType.STREAM and (if_unused or if_empty):
            resource = resource_text(QUEUE, name, host.name)
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{resource} is a stream, for which if-unused and if-empty are not looked at:"
                " leave them out to delete it",
            )
        method = QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty)
        deleted = await self._do(caller, host, method)
        count: int = deleted.message_count
        return count

    async def _purge_queue(self, caller: Caller, asked: PurgeQueue) -> int:
        host = self._host(asked.vhost)
        purged = await self._do(caller, host, QueuePurge(queue=_name("name", asked.name)))
        count: int = purged.message_count
        return count

    # exchanges

    async def _declare_exchange(self, caller: Caller, asked: DeclareExchange) -> ExchangeDeclared:
        host = self._host(asked.vhost)
        method = ExchangeDeclare(
            exchange=_name("name", asked.name),
            type=asked.type,
            durable=asked.durable,
            auto_delete=asked.auto_delete,
            internal=asked.internal,
            arguments=_table(asked.arguments),
        )
        created = method.exchange not in host.model.exchanges
        await self._do(caller, host, method)
        return ExchangeDeclared(method.exchange, created)

    async def _delete_exchange(self, caller: Caller, asked: DeleteExchange) -> None:
        host, name = self._host(asked.vhost), _name("name", asked.name)
        if name not in host.model.exchanges:
            raise _refusal(not_found(EXCHANGE, resource_text(EXCHANGE, name, host.name)))
        await self._do(caller, host, ExchangeDelete(exchange=name, if_unused=asked.if_unused))

    # bindings

    async def _create_binding(self, caller: Caller, asked: CreateBinding) -> BindingCreated:
        host = self._host(asked.vhost)
        source, destination = _ends(asked)
        binding = Binding(source, destination, asked.routing_key, _table(asked.arguments))
        method = _bind(binding)
        created = not host.model.bindings.has(binding)
        await self._do(caller, host, method)
        return BindingCreated(created)

    async def _delete_bindings(self, caller: Caller, asked: DeleteBinding) -> int:
        """Delete all bindings that lists show alike: the types of numbers are not shown."""
        host = self._host(asked.vhost)
        source, destination = _ends(asked)
        key, arguments = asked.routing_key, _shown(_table(asked.arguments))
        exchange = host.model.exchanges.get(source)
        found = [
            binding
            for binding in (() if exchange is None else exchange.bindings.values())
            if (binding.destination, binding.routing_key) == (destination, key)
            and _shown(binding.arguments) == arguments
        ]
        if not found:
            kind, name = destination
            raise _refusal(
                not_found(
                    BINDING,
                    f"binding from {resource_text(EXCHANGE, source, host.name)} to {kind} '{name}'"
                    f" with the routing key '{key}' and these arguments",
                )
            )
        for binding in found:
            await self._do(caller, host, _unbind(binding))
        return len(found)

    # all

    async def _do(self, caller: Caller, host: "QueueHost", method: Method) -> Any:  # noqa: ANN401 - a method's own answer
        """Execute a method: of the management API with the permissions that its user has."""
        method = as_client_sends(method)
        user = caller.identity if caller.surface is Surface.MANAGEMENT else None
        try:
            return await do_method(self._queues, host, method, user)
        except (AmqpError, Refused) as error:
            raise _refusal(error) from error

    def _host(self, vhost: str) -> "QueueHost":
        host = self._queues.virtual_hosts.hosts.get(vhost)
        if host is None:
            raise no_vhost(vhost)
        return host


def _refusal(error: AmqpError | Refused) -> OperationRefused:
    """Return an administrator's error: RabbitMQ's text, and a remedy if known."""
    remedy = None
    if isinstance(error, Refused):
        remedy = _REMEDIES.get(error.kind)
        if error.kind is RefusalKind.NOT_FOUND and error.resource in _LISTED:
            remedy = f"see: headrace amqp {error.resource} list"
        error = reply_to(error)
    text = str(error)
    code = _CODES.get(error.code, ErrorCode.INVALID_REQUEST)
    text = text if remedy is None else f"{text.rstrip('.')}; {remedy}"
    return OperationRefused(code, text, error.code, error.text)


def _ends(asked: CreateBinding | DeleteBinding) -> tuple[str, Destination]:
    """Return the source and destination of a binding; raise ValueError for a wrong kind."""
    kind = asked.to
    if kind not in {QUEUE, EXCHANGE}:
        raise ValueError(f"a binding leads to a {QUEUE} or an {EXCHANGE}, not to {kind!r}")
    source, name = _name("source", asked.source), _name("destination", asked.destination)
    return source, Destination(kind, name)


def _bind(binding: Binding) -> Method:
    source, (kind, name), key, _ = binding
    arguments = cast("FieldTable", binding.arguments)
    if kind == QUEUE:
        return QueueBind(queue=name, exchange=source, routing_key=key, arguments=arguments)
    return ExchangeBind(destination=name, source=source, routing_key=key, arguments=arguments)


def _unbind(binding: Binding) -> Method:
    source, (kind, name), key, _ = binding
    arguments = cast("FieldTable", binding.arguments)
    if kind == QUEUE:
        return QueueUnbind(queue=name, exchange=source, routing_key=key, arguments=arguments)
    return ExchangeUnbind(destination=name, source=source, routing_key=key, arguments=arguments)


def _shown(arguments: Mapping[str, object]) -> str:
    """Return arguments as lists show them, for comparison; true, 1 and 1.0 differ."""
    return json.dumps(plain(arguments), sort_keys=True)


def _name(word: str, name: str) -> str:
    """Return a name; raise ValueError if it has line ends, which AMQP names lose."""
    if "\r" in name or "\n" in name:
        raise ValueError(f"{word} {name!r} has a line end in it")
    return name


def _table(arguments: Mapping[str, object]) -> FieldTable:
    """Return arguments as RabbitMQ's own tools send them: integers as 64-bit longs."""
    return {name: _field(value, TABLE_DEPTH_MAX) for name, value in arguments.items()}


def _field(value: object, depth_left: int) -> FieldValue:
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            if value not in _INT64:
                raise ValueError(f"{value} is too large a number: quotes make it a string")
            return Long(value)
        case _ if not depth_left:
            raise ValueError(f"arguments are nested deeper than {TABLE_DEPTH_MAX}")
        case dict():
            return {name: _field(inner, depth_left - 1) for name, inner in value.items()}
        case list():
            return [_field(inner, depth_left - 1) for inner in value]
    raise ValueError(f"{value!r} is no value of JSON")
