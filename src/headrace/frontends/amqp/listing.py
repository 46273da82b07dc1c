"""What there is on this broker for AMQP, as lists of JSON's values."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.permissions.definitions import Definitions

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queues.engine.queue_host import QueueHost

Question = Mapping[str, Any]
Row = dict[str, object]
ROWS_MAX = 100_000
"""Of one answer; beyond, a narrower question is to be asked."""


class Listing:
    """Lists by kind. `vhost` and `user` in a question leave the others out."""

    def __init__(self, queues: "QueueBroker", definitions: Definitions) -> None:
        self._queues = queues
        self._definitions = definitions
        rows: dict[str, Callable[[Question], Iterable[Row]]] = {
            "vhost": self._vhosts,
            "user": self._users,
            "permission": self._permissions,
            "topic-permission": self._topic_permissions,
            "exchange": self._exchanges,
            "queue": self._queue_rows,
            "binding": self._bindings,
            "connection": self._connections,
            "channel": self._channels,
            "consumer": self._consumers,
        }
        self.by_kind: dict[str, Callable[[Question], list[Row]]] = {
            kind: _bounded(found) for kind, found in rows.items()
        }

    def _vhosts(self, question: Question) -> Iterator[Row]:
        for name, vhost in sorted(self._definitions.vhosts.items()):
            host = self._queues.virtual_hosts.hosts[name]
            yield {
                "name": name,
                "description": vhost.description,
                "max_connections": vhost.connections_max,
                "max_queues": vhost.queues_max,
                "connections": self._queues.clients.count_in(name),
                "queues": len(host.queues),
            }

    def _users(self, question: Question) -> Iterator[Row]:
        for name, user in sorted(self._definitions.users.items()):
            yield {
                "name": name,
                "tags": list(user.tags),
                "max_connections": user.connections_max,
                "max_channels": user.channels_max,
                "connections": self._queues.clients.count_of(name),
                "hashed": bool(user.password_hash),
            }

    def _permissions(self, question: Question) -> Iterator[Row]:
        for name, user in sorted(self._definitions.users.items()):
            for vhost, grant in sorted(user.grants.items()):
                row: Row = {"user": name, "vhost": vhost, **grant._asdict()}
                if _fits(question, row):
                    yield row

    def _topic_permissions(self, question: Question) -> Iterator[Row]:
        for name, user in sorted(self._definitions.users.items()):
            for (vhost, exchange), grant in sorted(user.topic_grants.items()):
                row: Row = {"user": name, "vhost": vhost, "exchange": exchange}
                if _fits(question, row):
                    yield {**row, **grant._asdict()}

    def _exchanges(self, question: Question) -> Iterator[Row]:
        for host in self._hosts(question):
            for name, exchange in sorted(host.model.exchanges.items()):
                yield {
                    "vhost": host.name,
                    "name": name,
                    "type": exchange.exchange_type.value,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": plain(exchange.arguments),
                }

    def _queue_rows(self, question: Question) -> Iterator[Row]:
        for host in self._hosts(question):
            for name, queue in sorted(host.queues.items()):
                declared = queue.declared
                yield {
                    "vhost": host.name,
                    "name": name,
                    "type": declared.settings.queue_type.value,
                    "durable": declared.durable,
                    "auto_delete": declared.auto_delete,
                    "exclusive": declared.owner is not None,
                    "arguments": plain(declared.arguments),
                    "messages_ready": queue.ready,
                    "messages_unacknowledged": queue.unacked,
                    "messages": queue.ready + queue.unacked,
                    "message_bytes_ready": queue.ready_bytes,
                    "consumers": len(queue.consumers),
                }

    def _bindings(self, question: Question) -> Iterator[Row]:
        for host in self._hosts(question):
            # The default exchange's, which nobody can make or take away.
            for name in sorted(host.queues):
                yield _binding(host.name, "", "queue", name, name, {})
            for source, exchange in sorted(host.model.exchanges.items()):
                for binding in exchange.bindings.values():
                    kind, name = binding.destination
                    key, arguments = binding.routing_key, binding.arguments
                    yield _binding(host.name, source, kind, name, key, arguments)

    def _connections(self, question: Question) -> Iterator[Row]:
        for client in self._queues.clients:
            row: Row = {
                "name": client.name,
                "user": client.user,
                "vhost": client.host.name,
                "listener": client.peer.listener,
                "peer_host": client.peer.host,
                "peer_port": client.peer.port,
                "channels": client.channel_count,
                "client": {
                    key: str(client.properties[key])
                    for key in ("product", "version", "platform", "connection_name")
                    if key in client.properties
                },
            }
            if _fits(question, row):
                yield row

    def _channels(self, question: Question) -> Iterator[Row]:
        for client in self._queues.clients:
            for channel in client.channels:
                row: Row = {
                    "connection": client.name,
                    "number": channel.outlet.number,
                    "user": client.user,
                    "vhost": client.host.name,
                    "consumers": len(channel.consumers),
                    "messages_unacknowledged": len(channel.unacked.held),
                    "prefetch_count": channel.prefetch,
                    "global_prefetch_count": channel.unacked.prefetch,
                    "confirm": channel.confirms is not None,
                    "transactional": channel.transaction is not None,
                }
                if _fits(question, row):
                    yield row

    def _consumers(self, question: Question) -> Iterator[Row]:
        for client in self._queues.clients:
            for channel in client.channels:
                for consumer in channel.consumers.values():
                    row: Row = {
                        "connection": client.name,
                        "channel": channel.outlet.number,
                        "user": client.user,
                        "vhost": client.host.name,
                        "queue": consumer.queue.name,
                        "tag": consumer.tag,
                        "ack_required": not consumer.no_ack,
                        "exclusive": consumer.exclusive,
                        "prefetch_count": consumer.prefetch,
                        "messages_unacknowledged": consumer.unacked,
                        "priority": consumer.priority,
                    }
                    if _fits(question, row):
                        yield row

    def _hosts(self, question: Question) -> "Iterator[QueueHost]":
        """Yield the vhosts that are asked about. ApiError: there is no such vhost."""
        hosts, vhost = self._queues.virtual_hosts.hosts, question.get("vhost")
        if vhost is not None and vhost not in hosts:
            raise no_vhost(vhost)
        return (host for name, host in sorted(hosts.items()) if vhost in {None, name})


def no_vhost(name: str) -> ApiError:
    """Return the error for a vhost that is not there."""
    return ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no vhost '{name}'")


def _bounded(rows: Callable[[Question], Iterable[Row]]) -> Callable[[Question], list[Row]]:
    def found(question: Question) -> list[Row]:
        listed: list[Row] = []
        for row in rows(question):
            if len(listed) == ROWS_MAX:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"there are more than {ROWS_MAX}: ask for one vhost (--vhost)",
                )
            listed.append(row)
        return listed

    return found


def _fits(question: Question, row: Row) -> bool:
    return all(question.get(word) in {None, row[word]} for word in ("vhost", "user"))


def _binding(
    vhost: str, source: str, kind: str, name: str, key: str, arguments: Mapping[str, object]
) -> Row:
    return {
        "vhost": vhost,
        "source": source,
        "destination_type": kind,
        "destination": name,
        "routing_key": key,
        "arguments": plain(arguments),
    }


def plain(value: object) -> Any:  # noqa: ANN401 - a value of JSON
    """Return a value of a field table as JSON has it; what it has none of as text."""
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
