"""The view of bindings; the default exchange has one to each queue, by its name."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.frontends.amqp.listing import plain
from headrace.frontends.amqp.views.names import check_loaded
from headrace.operations.views import BindingKey, BindingView, arguments_hash
from headrace.queues.model.exchanges import DEFAULT_EXCHANGE, Binding, Destination
from headrace.queues.refusals import QUEUE

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queues.engine.queue_host import QueueHost

SLICE = 500
"""Keys made between two turns of the loop, in 2 ms if all have arguments."""


class BindingViews:
    """The bindings of a broker. Implements `operations.views.BindingsView`."""

    def __init__(self, queues: "QueueBroker") -> None:
        self._queues = queues
        self._hosts = queues.virtual_hosts.hosts

    async def keys(self, vhosts: Collection[str]) -> list[BindingKey]:
        """Return the keys of all bindings of these vhosts, implied ones included."""
        found: list[BindingKey] = []
        for vhost in vhosts:
            check_loaded(self._queues, vhost)
            host = self._hosts.get(vhost)
            if host is not None:
                found += await _keys(vhost, _bindings(host))
        return found

    async def keys_of(
        self,
        vhost: str,
        *,
        source: str | None = None,
        destination: tuple[str, str] | None = None,
    ) -> list[BindingKey]:
        """Return the keys of the bindings of one vhost from a source, to a destination, or both."""
        check_loaded(self._queues, vhost)
        host = self._hosts.get(vhost)
        if host is None:
            return []
        if destination is None:
            return await _keys(vhost, _bindings(host, source))
        return await _keys(vhost, _bound_to(host, source, Destination(*destination)))

    def describe(self, key: BindingKey) -> BindingView | None:
        """Return a binding; None: it is deleted."""
        host = self._hosts.get(key.vhost)
        if host is None:
            return None
        if key.source == DEFAULT_EXCHANGE:
            exists = key.destination in host.model.queues
        else:
            destination = Destination(key.destination_type, key.destination)
            exists = host.model.bindings.has(
                Binding(key.source, destination, key.routing_key, key.arguments)
            )
        return BindingView(key, plain(key.arguments)) if exists else None


def _bindings(host: "QueueHost", source: str | None = None) -> Iterator[Binding]:
    """Yield the bindings of a vhost, or those from one exchange; the vhost may change between."""
    model = host.model
    if source in {None, DEFAULT_EXCHANGE}:
        yield from map(_implied, list(model.queues))
    names = list(model.exchanges) if source is None else [source]
    for name in names:
        exchange = model.exchanges.get(name)
        yield from () if exchange is None else list(exchange.bindings.values())


def _bound_to(host: "QueueHost", source: str | None, destination: Destination) -> Iterator[Binding]:
    """Yield the bindings to a destination, or those of them from one exchange."""
    kind, name = destination
    is_implied = kind == QUEUE and name in host.model.queues
    if is_implied and source in {None, DEFAULT_EXCHANGE}:
        yield _implied(name)
    for binding in list(host.model.bindings.to(destination)):
        if source in {None, binding.source}:
            yield binding


def _implied(queue: str) -> Binding:
    return Binding(DEFAULT_EXCHANGE, Destination(QUEUE, queue), queue, {})


async def _keys(vhost: str, bindings: Iterable[Binding]) -> list[BindingKey]:
    """Return the keys of bindings, with pauses."""
    found: list[BindingKey] = []
    for binding in bindings:
        found.append(_key(vhost, binding))
        if len(found) % SLICE == 0:
            await asyncio.sleep(0)
    return found


def _key(vhost: str, binding: Binding) -> BindingKey:
    source, (kind, name), routing_key, arguments = binding
    hashed = arguments_hash(plain(arguments)) if arguments else ""
    return BindingKey(vhost, source, name, kind, routing_key, hashed, arguments)
