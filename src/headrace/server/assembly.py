"""The assembly of a broker from its configuration and its world: start, run, stop."""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.free_space import FreeSpace
from headrace.broker.gathered_writes import GatheredWrites
from headrace.broker.metadata_image import Endpoint
from headrace.cluster.controller.controller import Controller
from headrace.cluster.controller.producer_id_source import ProducerIdSource
from headrace.config.broker import BrokerConfig
from headrace.config.listeners import METRICS_LISTENER
from headrace.config.listeners import Listener as ConfiguredListener
from headrace.coordination.coordinators import Coordinators
from headrace.frontends.kafka.connection.dispatch import Dispatcher
from headrace.frontends.kafka.connection.registry import APIS
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.directory.periods import Periods
from headrace.model.nouns import BrokerId
from headrace.net.limits import Limits
from headrace.net.listener import Listener
from headrace.net.table import ConnectionTable
from headrace.observe.metrics import Metrics
from headrace.ports.disk import Disk, DiskFile
from headrace.ports.store import SessionEvents, Store
from headrace.ports.world import World
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Authorizer
from headrace.security.configured import default_authorizer
from headrace.server import identity
from headrace.server.compaction import ProcessWorker, compaction_worker
from headrace.server.frontends import Frontends, Parts
from headrace.server.listeners import Doors
from headrace.server.log_directories import Owner, load_all, open_all
from headrace.server.stop_waits import FLUSH_SECONDS_MAX, SEND_SECONDS_MAX, StopWaits, until

if TYPE_CHECKING:
    from headrace.frontends.http.endpoint import Endpoint as HttpEndpoint
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.server.cluster.cluster_links import ClusterLinks, SoleLeaders
    from headrace.server.inter_broker_clients import InterBrokerClients

log = logging.getLogger(__name__)

EARLY_SECONDS_MAX = 10.0
"""Longest wait, in seconds, of clients that connect while logs load, before it is logged.

Their first requests have no response for as long; some close the connection and open another
(librdkafka after 10 s).
"""
LAG_SECONDS = 0.5
"""Seconds between two measurements of the event loop's lag."""


class Server:
    """One broker, from its configuration and its world to its listeners. Used on the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        world: World,
        fatal: Callable[[Exception], None],
        *,
        controller: Callable[[Broker, Store, SessionEvents], Controller] | None = None,
        authorizer: Authorizer | None = None,
        sole_leaders: "SoleLeaders | None" = None,
    ) -> None:
        """Store the parts of a broker; nothing is opened before `start`.

        `fatal` is called with a broken invariant: the process must end, uncleanly. `controller`
        makes the controller instead of `Controller`, `authorizer` replaces the configured one,
        `sole_leaders` chooses topics in place of queues' for rights to lead; tests pass them.
        """
        self.config = config
        self.world = world
        self.metrics = Metrics()
        self.clock = world.clock
        self.disk = world.disk
        self.doors = Doors()
        self.listeners = self.doors.listeners
        self.directories: list[LogDirectory] = []
        self.broker: Broker
        self.controller: Controller
        self.coordinators: Coordinators
        self.producer_id_source: ProducerIdSource
        self.dispatcher: Dispatcher
        self.frontends = Frontends(config)
        """Make the sessions of each listener's connections."""
        self.table: ConnectionTable
        self.http: HttpEndpoint | None = None
        """The endpoint of metrics.listener; None if it is not configured."""
        self.free_space: FreeSpace
        self.cleaner: LogCleaner
        self.compaction = compaction_worker(world)
        self.cluster_links: ClusterLinks | None = None
        """The links to other brokers; None outside of a cluster."""
        self._inter_broker_clients: InterBrokerClients | None = None
        self._store: Store | None = None
        self._session = SessionEvents()
        self._fatal = fatal
        self._make_controller = controller or self._controller_of
        self._authorizer = authorizer
        self._sole_leaders = sole_leaders
        self._stopping = False

    async def start(self) -> None:
        """Open directories, bind, load logs, join the cluster, accept.

        ConfigError: one line why it failed.

        The listeners are bound before the logs load: clients that connect early wait for a
        response.
        """
        try:
            await self._open_directories()
            self._make_cleaner()
            self._bind()
            bound = self.clock.monotonic()
            await self._load()
            await self._join()
            self.broker.start()
            self.free_space.start()
            self.cleaner.start()
            await self.doors.open()
            waited = self.clock.monotonic() - bound
            if waited > EARLY_SECONDS_MAX:
                log.warning(
                    "clients that connected early waited up to %.1f s for a response, while the"
                    " logs were loaded. A clean stop before the start, or a higher"
                    " num.recovery.threads.per.data.dir, shortens this",
                    waited,
                )  # fmt: skip
            await self._open_http()
        except BaseException:
            await self._undo()
            raise
        self._measure_lag(self.clock.monotonic())

    # opening

    async def _open_directories(self) -> None:
        config, world = self.config, self.world
        broker_id, cluster_id = await identity.known_or_given(config, world, self._opened_store)
        owner = Owner(broker_id, cluster_id)
        open_all(config, world, owner, self._timed_flush, self.directories)
        self.broker = Broker(
            config,
            broker_id=BrokerId(broker_id),
            clock=self.clock,
            disk=self.disk,
            random=world.random,
            directories=self.directories,
            metrics=self.metrics,
            cluster_id=cluster_id,
            authorizer=self._authorizer or default_authorizer(config),
        )

    def _opened_store(self) -> Store:
        if self._store is None:
            self._store = self.world.open_store(self._session)
        return self._store

    def _make_cleaner(self) -> None:
        self.free_space = FreeSpace(
            self.directories, self.clock, self.disk, lambda: self.broker.config
        )
        self.cleaner = LogCleaner(
            self.directories,
            clock=self.clock,
            disk=self.disk,
            worker=self.compaction,
            settings=lambda: CleanerSettings(self.broker.config),
        )

    def _timed_flush(
        self,
        disk: Disk,
        files: Collection[DiskFile],
        done: Callable[[OSError | None], None],
    ) -> None:
        """Flush files, and record the flush's duration and result in the metrics."""
        began = self.clock.monotonic()

        def flushed(error: OSError | None) -> None:
            self.metrics.flushed(
                self.clock.monotonic() - began, len(files), failed=error is not None
            )
            done(error)

        disk.flush(files, flushed)

    def _bind(self) -> None:
        config = self.config
        self.table = ConnectionTable(
            self.clock,
            Limits(config, config.connection_limits),
            lambda connection: self.frontends.open(connection),
            self._fatal,
            self.broker.quotas.connected,
            self.broker.quotas.connecting,
        )
        self.broker.reconfigured.append(self._take_limits)
        self.doors.bind(config, self.table, self.world, self.broker.users.verifiers)
        self.broker.reconfigured.append(self.doors.reconfigure)
        self.broker.image.local = self.doors.local_of(self.broker.broker_id)

    def _take_limits(self, config: BrokerConfig) -> None:
        """Apply altered connection limits and periodic intervals."""
        self.table.limits = Limits(config, config.connection_limits)
        for directory in self.directories:
            directory.reconfigure(Periods.of(config))

    async def _load(self) -> None:
        store = self._opened_store()
        self.controller = self._make_controller(self.broker, store, self._session)
        if store.shared:
            from headrace.server.cluster.cluster_links import ClusterLinks

            self.cluster_links = ClusterLinks(
                self.controller, store, self._session, self.world, self._peer_clients(),
                self.directories, self._fatal, self._sole_leaders,
            )  # fmt: skip
            self.cluster_links.replicating.writes.ended = self.free_space.wrote
        config_of = await self.controller.log_configs()
        parallel = self.config.num_recovery_threads_per_data_dir
        await load_all(self.directories, config_of, parallel)
        self.broker.settle_doubles()

    def _controller_of(self, broker: Broker, store: Store, session: SessionEvents) -> Controller:
        if not store.shared:
            return Controller(broker, store, session)
        from headrace.server.cluster.cluster_links import order_channels

        return Controller(
            broker, store, session, peers=order_channels(broker, self._peer_clients())
        )

    def _peer_clients(self) -> "InterBrokerClients":
        from headrace.server.inter_broker_clients import InterBrokerClients

        if self._inter_broker_clients is None:
            network, tls = self.world.network, self.doors.tls
            self._inter_broker_clients = InterBrokerClients(self.config, network, tls)
        return self._inter_broker_clients

    async def _join(self) -> None:
        self.producer_id_source = ProducerIdSource(self.broker.producer_ids, self.controller)
        self.coordinators = Coordinators(
            self.broker,
            self.producer_id_source.new_producer_id,
            None if self.cluster_links is None else self.cluster_links.replicating.others,
        )
        writes = GatheredWrites(self.disk, self.directories)
        writes.ended = self.free_space.wrote
        service = None if self.cluster_links is None else self.cluster_links.service
        operations = self.frontends.operations(self.broker)
        self.dispatcher = Dispatcher(
            self.broker, self.coordinators, self.controller, APIS, self.metrics, writes, service,
            operations,
        )  # fmt: skip
        parts, links = None, self.cluster_links
        if operations is not None:
            held = (self.broker, self.coordinators, writes, self.controller, self._store)
            cluster = None if links is None else links.queue_cluster
            parts = Parts(*held, operations, self._fatal, cluster)
        self.frontends.make(self.dispatcher, parts)
        await self.controller.start(self.endpoints())
        self.coordinators.begin()
        await self.frontends.start()
        if self.cluster_links is not None:
            self.cluster_links.joined(self.coordinators)

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints advertised to Kafka clients, one per listener."""
        return [
            self._endpoint(listener, advertised)
            for listener, advertised in zip(
                self.doors.of_kafka(self.config), self.config.advertised_listeners, strict=True
            )
        ]

    def _endpoint(self, listener: Listener, advertised: ConfiguredListener) -> Endpoint:
        host = advertised.host or self.world.network.host_name()
        port = advertised.port or listener.port
        return Endpoint(listener.name, host, port, advertised.protocol)

    def listening(self) -> list[str]:
        """Return the addresses of all listeners, as `listeners` has them, with the actual ports."""
        return [
            str(configured._replace(port=listener.port))
            for configured, listener in zip(self.config.listeners, self.listeners, strict=True)
        ]

    async def _open_http(self) -> None:
        address = self.config.metrics_address
        if address is None:
            return
        from headrace.frontends.http import gauges
        from headrace.frontends.http.exposition import ProcessNumbers
        from headrace.frontends.http.scrape import Scrape
        from headrace.server import http_listener, metrics_sources, ready

        metrics_sources.register(
            self.broker, self.coordinators, self.table, self.cleaner, self.controller,
            self.cluster_links,
        )  # fmt: skip
        metrics_sources.register_disk(self.metrics, self.disk)
        process = partial(called_back, partial(self.disk.run, ProcessNumbers().text))
        self.http = http_listener.endpoint(
            self.broker,
            Scrape(self.metrics, process),
            partial(gauges.healthy, self.broker),
            partial(ready.awaited, self.broker, self.controller, self.cluster_links),
            self._fatal,
        )
        self.frontends.add(METRICS_LISTENER, self.http)
        under = http_listener.under(self.config, self.doors)
        await self.http.start(*address, self.table, self.world.network, under)
        log.info("metrics at %s/metrics", self.http.url)

    # while running

    def _measure_lag(self, expected: float) -> None:
        if self._stopping:
            return
        now = self.clock.monotonic()
        self.metrics.loop_lag.add(now - expected)
        self.clock.call_later(LAG_SECONDS, lambda: self._measure_lag(now + LAG_SECONDS))

    # stopping

    async def stop(self) -> None:
        """Stop cleanly: hand over leaderships, flush and answer requests under way, then close.

        Every wait is bounded, so it always ends; one warning names what did not finish.
        """
        waits = StopWaits()
        links = self.cluster_links
        if links is not None and self.config.controlled_shutdown_enable:
            await links.leave()  # bounded by itself; logs its own result
        self._stopping = True
        self.cleaner.close()
        self.free_space.stop()
        self.doors.close()
        if self.http is not None:
            await waits.within("HTTP responses", self.http.close())
        self.table.quiesce()
        await waits.until("flushes under way", self._flushed, FLUSH_SECONDS_MAX)
        await waits.within("requests in progress", self.frontends.stop())
        if links is not None:
            links.replicating.close()
        self.producer_id_source.close()
        self.coordinators.close()
        self.table.close()
        await until(lambda: not self.table, SEND_SECONDS_MAX)
        self.table.abort()
        if links is not None:
            links.close()
        await waits.within("changes of the metadata store in progress", self.controller.stop())
        await waits.within("closing the metadata store's session", self.controller.leave())
        if isinstance(self.compaction, ProcessWorker):
            await waits.within("the compaction process", self.compaction.ended())
        for directory in self.directories:
            directory.end_duties()
        await waits.until("checkpoints under way", self._written, FLUSH_SECONDS_MAX)
        waits.report()
        self.broker.stop()
        self.world.close()

    def _flushed(self) -> bool:
        return all(directory.flusher.idle or directory.fenced for directory in self.directories)

    def _written(self) -> bool:
        return not any(directory.writing and not directory.fenced for directory in self.directories)

    async def _undo(self) -> None:
        """Release what a failed start has opened."""
        self.doors.close()
        if self.http is not None:
            await self.http.close()
        if self.cluster_links is not None:
            self.cluster_links.replicating.close()
            self.cluster_links.close()
        if hasattr(self, "free_space"):
            self.free_space.stop()
        if hasattr(self, "table"):
            self.table.close()
            self.table.abort()
        if self._store is not None:
            await self._store.close()
        self.compaction.close()
        if isinstance(self.compaction, ProcessWorker):
            await self.compaction.ended()
        for directory in self.directories:
            directory.close(clean=False, withdrawn=True)
        self.world.close()
