"""Replication on one broker: its fetchers, ISR keeper, lease and coordinator calls."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.gathered_writes import GatheredWrites
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.membership.applier import Applier
from headrace.cluster.membership.lease import Lease
from headrace.cluster.peers.coordinator_peers import CoordinatorPeers
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import BrokerId
from headrace.ports.store import Store
from headrace.ports.world import World
from headrace.replication.controller_calls import ControllerCalls
from headrace.replication.fetch_dependencies import FetchDependencies
from headrace.replication.fetchers import ReplicaFetchers
from headrace.replication.isr_keeper import IsrKeeper


class Replicating:
    """The replication of a running broker. Created before the broker joins the cluster."""

    def __init__(
        self,
        broker: Broker,
        applier: Applier,
        store: Store,
        world: World,
        clients: PeerClients,
        directories: Collection[LogDirectory],
        listener: str,
        fatal: Callable[[Exception], None],
    ) -> None:
        """Create the fetchers, the lease and the coordinator peers of a broker.

        `listener`: the inter-broker listener's name. `fatal` ends the process.
        """
        self._broker = broker
        self._listener = listener
        self.store = store
        self._boot_seconds = world.boot_seconds
        self._fatal = fatal
        self._tasks: set[asyncio.Task[None]] = set()
        self.others = CoordinatorPeers(broker, listener, clients, self.run)
        """Requests of coordinators here to coordinators on other brokers."""
        self.writes = GatheredWrites(world.disk, tuple(directories))
        """The appends of fetched batches, gathered per pass."""
        dependencies = FetchDependencies(
            clients,
            self.writes,
            self.run,
            lambda: applier.broker_epoch,
            self._address_of,
        )
        self.fetchers = ReplicaFetchers(broker, dependencies)
        broker.follows.append(self.fetchers.follow)
        broker.unfollowed.append(self.fetchers.forget)
        self._keeper: IsrKeeper | None = None
        lease = Lease(
            store, lambda: applier.session(), world.boot_seconds, world.clock, self._lease_renewed
        )
        applier.may_commit = lease.holds

    def keep_in_sync(self, calls: ControllerCalls) -> IsrKeeper:
        """Start to keep the ISRs of partitions led here.

        `calls` requests the changes of the controller.
        """
        broker = self._broker
        keeper = self._keeper = IsrKeeper(
            broker.partitions.values,
            calls,
            broker.clock,
            self.run,
            lambda: broker.config.replica_lag_time_max_ms / 1000,
        )
        broker.isr_wanted = keeper.ask
        keeper.start()
        return keeper

    def store_unheard_seconds(self) -> float:
        """Return the seconds since the metadata store last answered; 0 for an embedded store."""
        return max(self._boot_seconds() - self.store.last_heard(), 0.0)

    def close(self) -> None:
        """Stop fetching, ISR changes and coordinator calls."""
        self._broker.follows.remove(self.fetchers.follow)
        self._broker.unfollowed.remove(self.fetchers.forget)
        self.fetchers.close()
        if self._keeper is not None:
            self._keeper.close()
        self.others.close()

    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a background task; an exception in it ends the process (`fatal`)."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ran)
        return task

    def _ran(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fatal(error)

    def _address_of(self, broker: BrokerId) -> Address | None:
        known = self._broker.image.brokers.get(broker)
        endpoint = None if known is None else known.endpoint(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _lease_renewed(self) -> None:
        for partition in self._broker.partitions.values():
            if partition.role.term is not None:
                partition.role.term.lease_renewed()
