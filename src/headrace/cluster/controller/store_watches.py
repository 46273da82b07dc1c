"""Watches on the cluster's metadata store: changes that do not come as the controller's orders.

A broker with a metadata store of its own has no such watches.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from headrace.broker.broker import Broker
from headrace.broker.replica.former_terms import FormerTerm
from headrace.cluster.controller.directory_failures import DirectoryFailures
from headrace.cluster.controller.replica_requests import ReplicaRequests
from headrace.cluster.controller.term import Result
from headrace.cluster.controller.tool_requests import ToolRequests
from headrace.cluster.decisions.events import Event
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Orders
from headrace.cluster.membership.applier import Applier
from headrace.cluster.membership.directory_doubts import OwnDoubts
from headrace.cluster.membership.registration import OwnRegistration
from headrace.cluster.settings.config_changes import ConfigChanges
from headrace.cluster.settings.runtime_settings import Settings
from headrace.cluster.store.catalog import Catalog
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.cluster.settings.noticed_changes import NoticedChanges


class StoreWatches:
    """Watches for changes by other brokers (settings, ACLs, tokens), by tools, and failures."""

    def __init__(
        self,
        broker: Broker,
        catalog: Catalog,
        settings: Settings,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
        change: asyncio.Lock,
    ) -> None:
        """Create the watches, without starting them.

        `facts` returns the present term's facts. `change`: lock held by each writer.
        """
        self._broker = broker
        self._catalog = catalog
        self.replicas = ReplicaRequests(broker, carry_out, facts)
        """Elections and reassignments; a broker with its own store uses these too."""
        self.doubts = OwnDoubts(broker, catalog.store)
        """Replicas of this broker that may lack committed records, in a cluster."""
        self._settings = ConfigChanges(broker, catalog.configs, settings, change)
        self._tools = ToolRequests(broker, catalog, self.replicas, carry_out, facts, change)
        self._failures = DirectoryFailures(broker, catalog.store, carry_out, facts)
        self._noticed: list[NoticedChanges[Any]] = []
        if not broker.authorizer.allows_all:
            from headrace.cluster.settings import acl_settings

            self._noticed.append(
                acl_settings.noticed_changes(broker, catalog.store, settings.acls, change)
            )
        if settings.tokens is not None:
            from headrace.cluster.settings import token_settings

            self._noticed.append(
                token_settings.noticed_changes(broker, catalog.store, settings.tokens, change)
            )

    async def look_back(self, applier: Applier, registration: OwnRegistration) -> None:
        """Read from the store, before registration, what this broker leads and holds."""
        topics = (await self._catalog.topics(passed_over=[])).values()
        me, doubts = self._broker.broker_id, self.doubts
        applier.former_terms = {
            TopicPartition(topic.name, index): FormerTerm(topic.node.topic_id, state.leader_epoch)
            for topic in topics
            for index, state in topic.states.items()
            if state.leader == me
        }
        await doubts.find(topics)
        await doubts.settle()
        applier.may_make, applier.is_damaged = doubts.may_make, doubts.is_damaged

        async def before(orders: Orders) -> None:
            """End doubts that the controller has taken into account."""
            await doubts.heard(orders, applier.broker_epoch, registration.doubt)

        applier.before = before

    def start(self) -> None:
        """Begin to watch; the broker is registered."""
        self._settings.start()
        for noticed in self._noticed:
            noticed.start()
        self._tools.start()
        self._failures.start()
        self.doubts.start()

    def stop(self) -> None:
        """Stop all watches."""
        for noticed in self._noticed:
            noticed.stop()
        for part in (self._settings, self._tools, self._failures, self.doubts):
            part.stop()

    def missed(self) -> None:
        """Look for changes that were missed while the store was unreachable."""
        self._settings.missed()
        self._failures.missed()

    def elected(self) -> None:
        """Begin the controller's part: this broker was elected."""
        self._tools.look()
        self._failures.look()
