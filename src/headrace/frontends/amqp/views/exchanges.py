"""The view of exchanges."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from headrace.frontends.amqp.listing import plain
from headrace.frontends.amqp.views.names import existing, named
from headrace.operations.views import ExchangeView, Named

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.model.exchanges import Exchange


class ExchangeViews:
    """The exchanges of a broker. Implements `operations.views.View`."""

    def __init__(self, queues: "QueueBroker") -> None:
        self._queues = queues

    async def keys(self, vhosts: Collection[str]) -> list[Named]:
        """Return vhost and name of all exchanges of these vhosts. Raises ApiError."""
        return await named(self._queues, vhosts, _exchanges)

    def describe(self, key: Named) -> ExchangeView | None:
        """Return an exchange as it was declared.

        Raises ApiError if there may be one that is not loaded yet.
        """
        vhost, name = key
        found = existing(self._queues, vhost, _exchanges, name)
        if found is None:
            return None
        host, exchange = found
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


def _exchanges(host: "QueueHost") -> "Mapping[str, Exchange]":
    return host.model.exchanges
