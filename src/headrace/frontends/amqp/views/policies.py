"""The views of policies and of operator policies."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.frontends.amqp.views.names import existing, named
from headrace.operations.views import Named, PolicyView
from headrace.queues.model.policies.vhost_policy import PolicyId

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker


class PolicyViews:
    """The policies of a broker, of users or of operators. Implements `operations.views.View`."""

    def __init__(self, queues: "QueueBroker", *, operators: bool) -> None:
        self._queues = queues
        self._operators = operators

    async def keys(self, vhosts: Collection[str]) -> list[Named]:
        """Return vhost and name of all policies of these vhosts. Raises ApiError."""
        return await named(
            self._queues,
            vhosts,
            lambda host: (
                each.name for each in host.model.policies if each.operators is self._operators
            ),
        )

    def describe(self, key: Named) -> PolicyView | None:
        """Return a policy; None: it does not exist.

        Raises ApiError if there may be one that is not loaded yet.
        """
        vhost, name = key
        policy = PolicyId(name, self._operators)
        found = existing(self._queues, vhost, lambda host: host.model.policies, policy)
        return None if found is None else PolicyView(vhost, name, found[1].policy.value)
