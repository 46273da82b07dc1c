"""The list operations of administrators: vhosts, users, permissions, queues, connections."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.queues import (
    BindingDescription,
    ConsumerDescription,
    ExchangeDescription,
    ListBindings,
    ListConsumers,
    ListExchanges,
    ListQueues,
    QueueDescription,
)
from headrace.operations.virtual_hosts import (
    ChannelDescription,
    ConnectionDescription,
    ListChannels,
    ListConnections,
    ListPermissions,
    ListTopicPermissions,
    ListUsers,
    ListVhosts,
    PermissionDescription,
    TopicPermissionDescription,
    UserDescription,
    VhostDescription,
)
from headrace.ports.callbacks import gather
from headrace.posix.awaiting import called_back
from headrace.queues.permissions.definitions import Definitions
from headrace.queues.port import QueueInfo

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.frontends.amqp.queue_members import QueueMembers
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do
    from headrace.ports.callbacks import Done
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.port import Queue

Row = TypeVar("Row")
Asked = TypeVar("Asked")
OfOne = ListPermissions | ListTopicPermissions | ListConnections | ListChannels | ListConsumers
"""Lists that can be restricted to one vhost or one user."""
Described = (
    PermissionDescription
    | TopicPermissionDescription
    | ConnectionDescription
    | ChannelDescription
    | ConsumerDescription
)
OfVhost = ListExchanges | ListQueues | ListBindings
ROWS_MAX = 100_000
"""Rows of one list at most; above, the caller must restrict it."""


class Listing:
    """The list operations, restricted to the `vhost` and `user` asked for."""

    def __init__(
        self, queues: "QueueBroker", definitions: Definitions, members: "QueueMembers"
    ) -> None:
        self._queues = queues
        self._definitions = definitions
        self._members = members
        self.operations: dict[type[Arguments[Any]], Do] = {
            ListVhosts: _bounded(self._vhosts),
            ListUsers: _bounded(self._users),
            ListPermissions: _bounded(self._permissions),
            ListTopicPermissions: _bounded(self._topic_permissions),
            ListExchanges: _bounded(self._exchanges),
            ListQueues: self._queue_rows,
            ListBindings: _bounded(self._bindings),
            ListConnections: _bounded(self._connections),
            ListChannels: _bounded(self._channels),
            ListConsumers: _bounded(self._consumers),
        }

    def _vhosts(self, asked: ListVhosts) -> Iterator[VhostDescription]:
        for name, vhost in sorted(self._definitions.vhosts.items()):
            host = self._queues.virtual_hosts.hosts[name]
            yield VhostDescription(
                name=name,
                description=vhost.description,
                max_connections=vhost.connections_max,
                max_queues=vhost.queues_max,
                connections=self._queues.clients.count_in(name),
                queues=len(host.model.queues),
            )

    def _users(self, asked: ListUsers) -> Iterator[UserDescription]:
        for name, user in sorted(self._definitions.users.items()):
            yield UserDescription(
                name=name,
                tags=user.tags,
                max_connections=user.connections_max,
                max_channels=user.channels_max,
                connections=self._queues.clients.count_of(name),
                hashed=bool(user.password_hash),
            )

    def _permissions(self, asked: ListPermissions) -> Iterator[PermissionDescription]:
        for name, user in sorted(self._definitions.users.items()):
            for vhost, grant in sorted(user.grants.items()):
                row = PermissionDescription(name, vhost, **grant._asdict())
                if _fits(asked, row):
                    yield row

    def _topic_permissions(
        self, asked: ListTopicPermissions
    ) -> Iterator[TopicPermissionDescription]:
        for name, user in sorted(self._definitions.users.items()):
            for (vhost, exchange), grant in sorted(user.topic_grants.items()):
                row = TopicPermissionDescription(name, vhost, exchange, **grant._asdict())
                if _fits(asked, row):
                    yield row

    def _exchanges(self, asked: ListExchanges) -> Iterator[ExchangeDescription]:
        for host in self._hosts(asked):
            for name, exchange in sorted(host.model.exchanges.items()):
                yield ExchangeDescription(
                    vhost=host.name,
                    name=name,
                    type=exchange.exchange_type.name,
                    durable=exchange.durable,
                    auto_delete=exchange.auto_delete,
                    internal=exchange.internal,
                    arguments=plain(exchange.arguments),
                )

    async def _queue_rows(self, caller: "Caller", asked: ListQueues) -> list[QueueDescription]:
        """Return the queues with their counts, which the leaders of a cluster are asked for."""
        declared = [
            (host, queue)
            for host in self._hosts(asked)
            for name, queue in sorted(host.model.queues.items())
            if asked.name in {None, name}
        ]
        if len(declared) > ROWS_MAX:
            raise _too_many()
        counts = await called_back(partial(_counted, self._members, declared))
        return [
            self._queue_row(host, queue, counts[number])
            for number, (host, queue) in enumerate(declared)
        ]

    def _queue_row(
        self, host: "QueueHost", queue: "DeclaredQueue", info: QueueInfo
    ) -> QueueDescription:
        members = self._members.of(host.name, queue)
        return QueueDescription(
            vhost=host.name,
            name=queue.name,
            type=queue.settings.queue_type.value,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            exclusive=queue.owner is not None,
            arguments=plain(queue.arguments),
            messages_ready=info.ready,
            messages_unacknowledged=info.unacked,
            messages=info.ready + info.unacked,
            message_bytes_ready=info.ready_bytes,
            consumers=info.consumers,
            state=members.state,
            **members._asdict(),
        )

    def _bindings(self, asked: ListBindings) -> Iterator[BindingDescription]:
        for host in self._hosts(asked):
            # The default exchange's bindings, which cannot be created or deleted.
            for name in sorted(host.model.queues):
                yield _binding(host.name, "", "queue", name, name, {})
            for source, exchange in sorted(host.model.exchanges.items()):
                for binding in exchange.bindings.values():
                    kind, name = binding.destination
                    key, arguments = binding.routing_key, binding.arguments
                    yield _binding(host.name, source, kind, name, key, arguments)

    def _connections(self, asked: ListConnections) -> Iterator[ConnectionDescription]:
        for client in self._queues.clients:
            row = ConnectionDescription(
                name=client.name,
                user=client.user,
                vhost=client.host.name,
                listener=client.peer.listener,
                peer_host=client.peer.host,
                peer_port=client.peer.port,
                channels=client.channel_count,
                client={
                    key: str(client.properties[key])
                    for key in ("product", "version", "platform", "connection_name")
                    if key in client.properties
                },
            )
            if _fits(asked, row):
                yield row

    def _channels(self, asked: ListChannels) -> Iterator[ChannelDescription]:
        for client in self._queues.clients:
            for channel in client.channels:
                row = ChannelDescription(
                    connection=client.name,
                    number=channel.outlet.number,
                    user=client.user,
                    vhost=client.host.name,
                    consumers=len(channel.consumers),
                    messages_unacknowledged=len(channel.unacked.held),
                    prefetch_count=channel.prefetch,
                    global_prefetch_count=channel.unacked.prefetch,
                    confirm=channel.confirms is not None,
                    transactional=channel.transaction is not None,
                )
                if _fits(asked, row):
                    yield row

    def _consumers(self, asked: ListConsumers) -> Iterator[ConsumerDescription]:
        for client in self._queues.clients:
            for channel in client.channels:
                for consumer in channel.consumers.values():
                    row = ConsumerDescription(
                        connection=client.name,
                        channel=channel.outlet.number,
                        user=client.user,
                        vhost=client.host.name,
                        queue=consumer.queue.name,
                        tag=consumer.tag,
                        ack_required=not consumer.no_ack,
                        exclusive=consumer.exclusive,
                        prefetch_count=consumer.prefetch,
                        messages_unacknowledged=consumer.unacked,
                        priority=consumer.priority,
                    )
                    if _fits(asked, row):
                        yield row

    def _hosts(self, asked: OfVhost) -> "Iterator[QueueHost]":
        """Yield the vhosts asked for; raise ApiError if the named one does not exist."""
        hosts, vhost = self._queues.virtual_hosts.hosts, asked.vhost
        if vhost is not None and vhost not in hosts:
            raise no_vhost(vhost)
        return (host for name, host in sorted(hosts.items()) if vhost in {None, name})


def _counted(
    members: "QueueMembers",
    declared: "Sequence[tuple[QueueHost, DeclaredQueue]]",
    done: "Done[Mapping[int, QueueInfo]]",
) -> None:
    """Call `done` with the counts of queues by their place, within a second or so.

    A queue that its leader does not count until then has the last known counts.
    """
    answered = gather(len(declared), done)
    for number, (host, queue) in enumerate(declared):
        found: Queue | None = host.queues.get(queue.name)
        is_unused = queue.durable and members.of(host.name, queue).topic is None
        if found is None and not is_unused:
            found = host.targets.queue_elsewhere(queue.name)
        if found is None:
            answered(number, QueueInfo(0, 0, 0, 0))
        else:
            found.ask_info(partial(answered, number))


def _too_many() -> ApiError:
    text = f"there are more than {ROWS_MAX}: ask for one vhost (--vhost)"
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def no_vhost(name: str) -> ApiError:
    """Return the error for a vhost that does not exist."""
    return ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no vhost '{name}'")


def _bounded(rows: Callable[[Asked], Iterable[Row]]) -> "Do":
    async def found(caller: "Caller", asked: Asked) -> list[Row]:
        listed: list[Row] = []
        for row in rows(asked):
            if len(listed) == ROWS_MAX:
                raise _too_many()
            listed.append(row)
        return listed

    return found


def _fits(asked: OfOne, row: Described) -> bool:
    return asked.vhost in {None, row.vhost} and asked.user in {None, row.user}


def _binding(
    vhost: str, source: str, kind: str, name: str, key: str, arguments: Mapping[str, object]
) -> BindingDescription:
    return BindingDescription(vhost, source, kind, name, key, plain(arguments))


def plain(value: object) -> Any:  # noqa: ANN401 - a value of JSON
    """Return a field table's value as JSON; types that JSON lacks become text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return str(value)
