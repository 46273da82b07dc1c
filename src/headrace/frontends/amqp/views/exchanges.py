"""The view of exchanges."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.frontends.amqp.listing import plain
from headrace.frontends.amqp.views.names import named
from headrace.operations.views import ExchangeView, Named

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker


class ExchangeViews:
    """The exchanges of a broker. Implements `operations.views.View`."""

    def __init__(self, queues: "QueueBroker") -> None:
        self._hosts = queues.virtual_hosts.hosts

    async def keys(self, vhosts: Collection[str]) -> list[Named]:
        """Return vhost and name of all exchanges of these vhosts."""
        return await named(self._hosts, vhosts, lambda host: host.model.exchanges)

    def describe(self, key: Named) -> ExchangeView | None:
        """Return an exchange as it was declared."""
        vhost, name = key
        host = self._hosts.get(vhost)
        exchange = None if host is None else host.model.exchanges.get(name)
        if exchange is None:
            return None
        return ExchangeView(
            vhost=vhost,
            name=name,
            type=exchange.exchange_type.name,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            internal=exchange.internal,
            arguments=plain(exchange.arguments),
        )
