"""The view of exchanges."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.frontends.amqp.listing import plain
from headrace.frontends.amqp.views.names import check_loaded, named
from headrace.operations.views import ExchangeView, Named

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker


class ExchangeViews:
    """The exchanges of a broker. Implements `operations.views.View`."""

    def __init__(self, queues: "QueueBroker") -> None:
        self._queues = queues

    async def keys(self, vhosts: Collection[str]) -> list[Named]:
        """Return vhost and name of all exchanges of these vhosts. Raises ApiError."""
        return await named(self._queues, vhosts, lambda host: host.model.exchanges)

    def describe(self, key: Named) -> ExchangeView | None:
        """Return an exchange as it was declared.

        Raises ApiError if there may be one that is not loaded yet.
        """
        vhost, name = key
        host = self._queues.virtual_hosts.hosts.get(vhost)
        exchange = None if host is None else host.model.exchanges.get(name)
        if host is None or exchange is None:
            check_loaded(self._queues, vhost)
            return None
        present = host.model.table.present
        policy = None if present is None else present.of_exchange(exchange).policy
        return ExchangeView(
            vhost=vhost,
            name=name,
            type=exchange.exchange_type.name,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            internal=exchange.internal,
            arguments=plain(exchange.arguments),
            policy=policy and policy.name,
        )
