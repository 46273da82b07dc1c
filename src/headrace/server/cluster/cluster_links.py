"""A cluster broker's links: to the controller, to the other brokers, and to the store's session."""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.client.client import Client
from headrace.client.transport.peer_clients import PeerClients
from headrace.cluster.controller.controller import Controller
from headrace.cluster.controller.leader_balance import LeaderBalance
from headrace.cluster.membership.orphaned_logs import OrphanedLogs
from headrace.cluster.peers.controller_channel import ControllerChannel
from headrace.cluster.peers.controller_link import ControllerLink
from headrace.cluster.peers.order_channels import OrderChannels
from headrace.cluster.peers.order_messages import Teller
from headrace.cluster.peers.peer_service import PeerService
from headrace.cluster.store.catalog import Catalog
from headrace.config.broker import BrokerConfig
from headrace.config.listeners import spoken_rows
from headrace.coordination.coordinators import Coordinators
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import BrokerId
from headrace.ports.store import SessionEvents, Store
from headrace.ports.world import World
from headrace.server.cluster.replicating import Replicating
from headrace.server.cluster.store_session import StoreOutage, StoreSession
from headrace.server.inter_broker_clients import InterBrokerClients

if TYPE_CHECKING:
    import asyncio

    from headrace.server.cluster.broker_watches import BrokerWatches
    from headrace.server.cluster.deleted_logs import DeletedLogs
    from headrace.server.cluster.lease_pings import LeasePings
    from headrace.server.cluster.queue_cluster import QueueCluster
    from headrace.server.cluster.queue_leadership import QueueLeadership
    from headrace.server.cluster.settled_copies import SettledCopies
    from headrace.vhosts.declarations.log_growth import LogGrowth

    SoleLeaders = Callable[[str], bool]
    """Whether a topic's leader must be the only one."""


class ClusterLinks:
    """A broker's link to the controller, its service for other brokers, and its replication."""

    queue_leadership: "QueueLeadership | None" = None
    """The rights to lead queues, for `DeliveryTurns.leadership`; None: no topic needs any."""
    queue_cluster: "QueueCluster | None" = None
    """This broker's part in the queues of the cluster; None: no listener serves queues."""
    _deleted: "DeletedLogs | None" = None
    _growth: "LogGrowth | None" = None
    _pings: "LeasePings | None" = None
    _watches: "BrokerWatches | None" = None

    def __init__(
        self,
        controller: Controller,
        store: Store,
        session: SessionEvents,
        world: World,
        peer_clients: InterBrokerClients,
        directories: Collection[LogDirectory],
        fatal: Callable[[Exception], None],
        sole_leaders: "SoleLeaders | None" = None,
    ) -> None:
        """Create the links of a broker that joins the cluster later.

        `store`: the cluster's metadata store. `fatal` ends the process. `sole_leaders`: of which
        topics leaders must be the only ones; None: of queues, if this broker serves queues.
        """
        self._broker = broker = controller.broker
        self._store = store
        self._controller = controller
        self._applier = controller.applier
        catalog, config = Catalog(store), broker.config
        self.session = StoreSession(session)
        outage = StoreOutage(broker, self.session, store, world.boot_seconds)
        controller.known.outage = outage.text
        session.answered = broker.metrics.store_requests.add
        clients = peer_clients.by(config.inter_broker_listener_name)
        client = _client(config, broker.broker_id, clients)
        channel = ControllerChannel(client, catalog, config.inter_broker_listener_name)
        self.link = ControllerLink(controller, channel)
        self.service = PeerService(controller, catalog, lambda: self.settled_copies.followed)
        self.replicating = Replicating(
            broker,
            controller.applier,
            store,
            world,
            clients,
            directories,
            config.inter_broker_listener_name,
            fatal,
        )
        """Fetchers of the replicas that follow here, and ISRs of the partitions led here."""
        self._clients = clients
        if any(row.feature for row in spoken_rows(config.listeners)):
            self.queue_cluster = self._queue_cluster(controller, sole_leaders, world)
        elif sole_leaders is not None:
            self._rights(sole_leaders, world)
        if config.early_leader_election_enable:
            from headrace.server.cluster import broker_watches

            self._watches = broker_watches.BrokerWatches(
                controller, store, clients, self.replicating.run
            )
        self._balance: LeaderBalance | None = None
        self._orphans = OrphanedLogs(broker, catalog, controller.applier)
        self._work: list[asyncio.Task[None]] = []
        if config.auto_leader_rebalance_enable:
            self._balance = LeaderBalance(controller, self.replicating.run)
        self.isr_keeper = self.replicating.keep_in_sync(self.link)
        controller.forward(self.link.create_topic, self.link.allocate_producer_ids)

    @cached_property
    def settled_copies(self) -> "SettledCopies":
        """The copies of queues' settled positions; made with the first queue or request."""
        from headrace.server.cluster.settled_copies import SettledCopies

        listener = self._broker.config.inter_broker_listener_name
        return SettledCopies(self._broker, listener, self._clients, self.replicating.run)

    def _rights(
        self, sole_leaders: "SoleLeaders", world: World
    ) -> "tuple[QueueLeadership, LeasePings]":
        """Have leaders of some topics lead by a right, which pings renew."""
        from headrace.broker.replica.held_rights import HeldRights
        from headrace.broker.replica.leading_rights import LeadingRights
        from headrace.server.cluster.lease_pings import LeasePings
        from headrace.server.cluster.queue_leadership import QueueLeadership

        broker, applier = self._broker, self._applier
        rights = LeadingRights(broker, sole_leaders, applier.holds_lease, world.boot_seconds)
        applier.rights = rights
        held = HeldRights(
            rights,
            lambda: applier.broker_epoch if applier.may_commit() else -1,
            broker.clock,
            world.boot_seconds,
        )
        listener = broker.config.inter_broker_listener_name
        run = self.replicating.run
        pings = LeasePings(broker, rights, listener, self._clients, run, world.boot_seconds)
        leadership = QueueLeadership(rights, held)
        self._pings, self.queue_leadership = pings, leadership
        return leadership, pings

    def _queue_cluster(
        self, controller: Controller, sole_leaders: "SoleLeaders | None", world: World
    ) -> "QueueCluster":
        from headrace.queues.queue_names import is_queue_topic
        from headrace.server.cluster.deleted_logs import DeletedLogs
        from headrace.server.cluster.queue_cluster import QueueCluster

        self._deleted = DeletedLogs(controller.broker, self._store, controller.applier)
        controller.registration.before = self._deleted.delete
        return QueueCluster(
            controller,
            self.service,
            self._clients,
            self.replicating.run,
            lambda: self.settled_copies,
            *self._rights(sole_leaders or is_queue_topic, world),
            self.link.change_queue_topics,
        )

    def joined(self, coordinators: Coordinators) -> None:
        """Begin the background work of a broker that has joined the cluster.

        Logs of partitions that moved elsewhere while this broker was down are deleted. Groups
        coordinated here are mirrored below /consumers, with `zookeeper.consumers.mirror.enable`.
        """
        if self._watches is not None:
            self._watches.start()
        if self._pings is not None:
            self._pings.start()
        if self.queue_cluster is not None:
            self.queue_cluster.start()
        if self._deleted is not None:
            self._work.append(self.replicating.run(self._deleted.keep_up()))
        self._broker.image.observers.append(self._image_changed)
        self._look_for_queues()
        self._work.append(self.replicating.run(self._orphans.keep_up()))
        if self._broker.config.zookeeper_consumers_mirror_enable:
            from headrace.server.cluster.group_mirror import GroupMirror

            mirror = GroupMirror(self._broker, self._store, coordinators.groups_if_any)
            self._work.append(self.replicating.run(mirror.keep_up()))

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.brokers is not None:
            self._look_for_queues()

    def _look_for_queues(self) -> None:
        """Look after the replicas of queues' declarations once a broker of the cluster has queues.

        Any broker may be the controller, which adds replicas, also without queues of its own.
        """
        brokers = self._broker.image.brokers.values()
        if self._growth is None and any(broker.features for broker in brokers):
            from headrace.vhosts.declarations.log_growth import LogGrowth

            self._growth = LogGrowth(self._broker, self._controller, self.replicating.run)

    async def leave(self) -> None:
        """Have the controller move this broker's leaderships away before a controlled shutdown.

        One attempt waits no longer than `controller.socket.timeout.ms`, nor than the store's
        session lasts without a heartbeat: after that other leaders are elected anyway.
        """
        if self.queue_cluster is not None:
            await self.queue_cluster.settle()
        request_seconds = self._broker.config.controller_socket_timeout_ms / 1000
        await self.link.hand_over(min(request_seconds, self._store.session_seconds))
        if self._pings is not None:
            await self._pings.until_fenced()

    def close(self) -> None:
        """Stop the background work and the link to the controller."""
        if self._balance is not None:
            self._balance.close()
        if self._watches is not None:
            self._watches.close()
        if self._image_changed in self._broker.image.observers:
            self._broker.image.observers.remove(self._image_changed)
        if self._growth is not None:
            self._growth.close()
        if "settled_copies" in self.__dict__:
            self.settled_copies.close()
        if self._pings is not None:
            self._pings.close()
        if self.queue_cluster is not None:
            self.queue_cluster.close()
        if self.queue_leadership is not None:
            self.queue_leadership.close()
        for work in self._work:
            work.cancel()
        self.link.close()


def order_channels(broker: Broker, peer_clients: InterBrokerClients) -> OrderChannels:
    """Return the channels by which this broker, as controller, sends orders to the others."""
    config, own = broker.config, broker.broker_id
    listener = config.control_plane_listener_name or config.inter_broker_listener_name
    clients = peer_clients.by(listener)
    return OrderChannels(lambda: _client(config, own, clients), Teller(own, listener))


def _client(config: BrokerConfig, own: BrokerId, clients: PeerClients) -> Client:
    return clients.make(
        str(own),
        request_timeout_seconds=config.controller_socket_timeout_ms / 1000,
        patient=True,
    )
