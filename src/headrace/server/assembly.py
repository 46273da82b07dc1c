"""Configuration in, a running broker out; and the way back."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.gathered_writes import GatheredWrites
from headrace.broker.metadata_image import Endpoint
from headrace.cluster.controller import Controller
from headrace.cluster.producer_id_source import ProducerIdSource
from headrace.config.broker import BrokerConfig
from headrace.config.listeners import Listener as ConfiguredListener
from headrace.coordination.coordinators import Coordinators
from headrace.frontends.kafka.connection.dispatch import Dispatcher
from headrace.frontends.kafka.connection.registry import APIS
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.meta_properties import read_identity
from headrace.log.directory.periods import Periods
from headrace.log.text_files import encode_uuid
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.net.limits import Limits
from headrace.net.listener import Address, Listener
from headrace.net.table import ConnectionTable
from headrace.observe.metrics import Metrics
from headrace.ports.disk import Disk, DiskFile
from headrace.posix.awaiting import called_back
from headrace.posix.clock import RealClock, RealRandom
from headrace.posix.disk import RealDisk
from headrace.posix.open_files import raise_limit
from headrace.posix.store.embedded_store import FILE_NAME, EmbeddedStore
from headrace.posix.threads import Workers
from headrace.server.compaction import ProcessWorker, cleaner_settings

if TYPE_CHECKING:
    from headrace.frontends.http.endpoint import Endpoint as HttpEndpoint

log = logging.getLogger(__name__)

STOP_FLUSH_SECONDS_MAX = 10.0
"""How long a stop waits for flushes under way, so that what they hold is acknowledged."""
STOP_SEND_SECONDS_MAX = 2.0
"""How long a stop waits for clients to take their last answers."""
EARLY_SECONDS_MAX = 10.0
"""How long clients that come early may wait unmentioned: their first requests seem unanswered for
as long, and some take the connection for dead and make another (librdkafka after 10 s)."""
LAG_SECONDS = 0.5
"""How often the event loop's lateness is measured."""


def limits_of(config: BrokerConfig) -> Limits:
    """The bounds on clients that the configuration sets."""
    queued = config.queued_max_request_bytes
    idle = config.connections_max_idle_ms
    return Limits(
        frame_bytes_max=config.socket_request_max_bytes,
        request_bytes_max=queued if queued >= 0 else 1 << 62,
        connections_max=config.max_connections,
        connections_per_address_max=config.max_connections_per_ip,
        idle_seconds_max=idle / 1000 if idle >= 0 else float("inf"),
        first_frame_seconds_max=config.connection_first_request_ms / 1000,
        frame_seconds_max=config.connection_request_receive_ms / 1000,
        waiting_answers_max=config.connection_requests_max,
        write_buffer_bytes_high=config.connection_answer_bytes_max,
        slow_reader_seconds_max=config.connection_slow_reader_ms / 1000,
    )


class Server:
    """One broker, from its configuration to its listeners. Used on the running loop."""

    def __init__(self, config: BrokerConfig, fatal: Callable[[Exception], None]) -> None:
        """`fatal` is called with a broken invariant: the process must end, uncleanly."""
        loop = asyncio.get_running_loop()
        self.config = config
        self.metrics = Metrics()
        self.clock = RealClock(loop)
        self.random = RealRandom()
        self.workers = Workers(loop)
        self.disk = RealDisk(
            self.workers,
            config.log_flush_strategy,
            min(config.log_open_files_max, raise_limit() // 2),
        )
        self.listeners: list[Listener] = []
        self.directories: list[LogDirectory] = []
        self.broker: Broker
        self.controller: Controller
        self.coordinators: Coordinators
        self.producer_id_source: ProducerIdSource
        self.dispatcher: Dispatcher
        self.table: ConnectionTable
        self.http: HttpEndpoint | None = None
        """The endpoint of metrics.listener, None where there is none."""
        self.cleaner: LogCleaner
        self.compaction = ProcessWorker()
        self._store: EmbeddedStore | None = None
        self._fatal = fatal
        self._stopping = False

    async def start(self) -> None:
        """Open, load, join, listen. ConfigError says in one line why that is impossible.

        The address is listened on before the logs are loaded: clients that come early wait.
        """
        try:
            self._open_directories()
            self._make_cleaner()
            self._bind()
            bound = self.clock.monotonic()
            await self._load()
            await self._join()
            self.broker.start()
            self.cleaner.start()
            for listener in self.listeners:
                await listener.accept()
            waited = self.clock.monotonic() - bound
            if waited > EARLY_SECONDS_MAX:
                log.warning("clients that came early have waited for up to %.1f s", waited)
            await self._open_http()
        except BaseException:
            await self._undo()
            raise
        self._measure_lag(self.clock.monotonic())

    # opening

    def _open_directories(self) -> None:
        config = self.config
        broker_id, cluster_id = self._identity()
        for path in config.log_dirs:
            try:
                directory = LogDirectory.open(
                    self.disk,
                    self.clock,
                    self.random,
                    path,
                    broker_id=broker_id,
                    cluster_id=cluster_id,
                    periods=Periods(
                        config.replica_high_watermark_checkpoint_interval_ms,
                        config.log_retention_check_interval_ms,
                        config.producer_id_expiration_ms,
                        config.log_scrub_bytes_per_second,
                        config.log_scrub_interval_ms,
                    ),
                    strategy=self._timed_flush,
                )
            except OSError as problem:
                raise _unusable(path, problem) from problem
            self.directories.append(directory)
        self.broker = Broker(
            config,
            broker_id=BrokerId(broker_id),
            clock=self.clock,
            disk=self.disk,
            random=self.random,
            directories=self.directories,
            metrics=self.metrics,
            cluster_id=cluster_id,
        )

    def _identity(self) -> tuple[int, str]:
        """The broker's and the cluster's id: as configured, as the directories say, or new."""
        broker_id, cluster_id = self.config.broker_id, ""
        named: dict[str, str] = {}
        for path in self.config.log_dirs:
            other = named.setdefault(os.path.realpath(path), path)
            if other != path:
                raise ConfigError(f"log.dirs={path}: the same directory as {other}")
            try:
                found = read_identity(self.disk, path)
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise _unusable(path, problem) from problem
            if found is not None:
                cluster_id = cluster_id or found.cluster_id
                broker_id = found.broker_id if broker_id < 0 else broker_id
        return max(broker_id, 0), cluster_id or encode_uuid(self.random.uuid())

    def _make_cleaner(self) -> None:
        self.cleaner = LogCleaner(
            self.directories,
            clock=self.clock,
            disk=self.disk,
            worker=self.compaction,
            settings=lambda: cleaner_settings(self.broker.config),
        )

    def _timed_flush(
        self,
        disk: Disk,
        files: Collection[DiskFile],
        done: Callable[[OSError | None], None],
    ) -> None:
        began = perf_counter()

        def flushed(error: OSError | None) -> None:
            self.metrics.flushed(perf_counter() - began, len(files), failed=error is not None)
            done(error)

        disk.flush(files, flushed)

    def _bind(self) -> None:
        config = self.config
        self.table = ConnectionTable(
            self.clock,
            limits_of(config),
            lambda connection: self.dispatcher.open(connection),
            self._fatal,
            self.broker.quotas.connected,
            self.broker.quotas.connecting,
        )
        self.broker.reconfigured.append(self._take_limits)
        for one in config.listeners:
            try:
                self.listeners.append(
                    Listener.bind(
                        Address(one.name, one.host, one.port),
                        self.table,
                        backlog=config.socket_listen_backlog_size,
                        send_buffer_bytes=config.socket_send_buffer_bytes,
                        receive_buffer_bytes=config.socket_receive_buffer_bytes,
                    )
                )
            except OSError as problem:
                reason = problem.strerror or str(problem)
                raise ConfigError(f"listeners={one}: {reason.lower()}") from problem

    def _take_limits(self, config: BrokerConfig) -> None:
        self.table.limits = limits_of(config)

    async def _load(self) -> None:
        self._store = EmbeddedStore(f"{self.config.log_dirs[0]}/{FILE_NAME}")
        self.controller = Controller(self.broker, self._store)
        config_of = await self.controller.log_configs()
        for directory in self.directories:
            await called_back(
                partial(
                    directory.load,
                    config_of,
                    parallel=self.config.num_recovery_threads_per_data_dir,
                )
            )

    async def _join(self) -> None:
        self.producer_id_source = ProducerIdSource(self.controller)
        self.coordinators = Coordinators(self.broker, self.producer_id_source.new_producer_id)
        self.dispatcher = Dispatcher(
            self.broker,
            self.coordinators,
            self.controller,
            APIS,
            self.metrics,
            GatheredWrites(self.disk, self.directories),
        )
        await self.controller.start(self.endpoints())
        self.coordinators.begin()

    def endpoints(self) -> list[Endpoint]:
        """What clients are told, listener by listener."""
        return [
            self._endpoint(listener, advertised)
            for listener, advertised in zip(
                self.listeners, self.config.advertised_listeners, strict=True
            )
        ]

    def _endpoint(self, listener: Listener, advertised: ConfiguredListener) -> Endpoint:
        host = advertised.host or socket.gethostname()
        port = advertised.port or listener.port
        return Endpoint(listener.name, host, port, advertised.protocol)

    def listening(self) -> list[str]:
        """Where it listens, as in `listeners`, with the ports that were chosen."""
        return [
            str(one._replace(port=listener.port))
            for one, listener in zip(self.config.listeners, self.listeners, strict=True)
        ]

    async def _open_http(self) -> None:
        address = self.config.metrics_address
        if address is None:
            return
        from headrace.frontends.http import gauges
        from headrace.frontends.http.endpoint import Endpoint as HttpEndpoint

        gauges.register(self.broker, self.coordinators, self.table)
        gauges.register_cleaner(self.metrics, self.cleaner)
        self.metrics.gauge(
            "headrace_passes_written_by_thread_total",
            "Reads from clients whose appends a thread did, for the kernel held writers up",
            lambda: self.disk.writer.passes,
            counter=True,
        )
        self.http = HttpEndpoint(self.metrics, lambda: gauges.healthy(self.broker))
        host, port = await self.http.start(*address)
        log.info("metrics at http://%s:%d/metrics", host, port)

    # while running

    def _measure_lag(self, expected: float) -> None:
        if self._stopping:
            return
        now = self.clock.monotonic()
        self.metrics.loop_lag.add(now - expected)
        self.clock.call_later(LAG_SECONDS, lambda: self._measure_lag(now + LAG_SECONDS))

    # stopping

    async def stop(self) -> None:
        """Stop cleanly: what was taken is flushed and answered, then all is closed."""
        self._stopping = True
        self.cleaner.close()
        for listener in self.listeners:
            listener.close()
        if self.http is not None:
            await self.http.close()
        self.table.quiesce()
        await self._until(self._flushed, STOP_FLUSH_SECONDS_MAX)
        await self.dispatcher.stop()
        self.producer_id_source.close()
        self.coordinators.close()
        self.table.close()
        await self._until(lambda: not self.table, STOP_SEND_SECONDS_MAX)
        self.table.abort()
        await self.controller.stop()
        await self.compaction.ended()
        for directory in self.directories:
            directory.end_duties()
        await self._until(self._written, STOP_FLUSH_SECONDS_MAX)
        self.broker.stop()
        self.workers.stop()

    def _flushed(self) -> bool:
        return all(one.flusher.idle or one.fenced for one in self.directories)

    def _written(self) -> bool:
        return not any(one.writing and not one.fenced for one in self.directories)

    @staticmethod
    async def _until(condition: Callable[[], bool], seconds_max: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_max
        while not condition() and loop.time() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.005)

    async def _undo(self) -> None:
        """Let go of what a failed start has taken."""
        for listener in self.listeners:
            listener.close()
        if self.http is not None:
            await self.http.close()
        if hasattr(self, "table"):
            self.table.close()
            self.table.abort()
        if self._store is not None:
            await self._store.close()
        self.compaction.close()
        await self.compaction.ended()
        for directory in self.directories:
            directory.close(clean=False)
        self.workers.stop()


def _unusable(path: str, problem: OSError) -> ConfigError:
    return ConfigError(f"log.dirs={path}: {(problem.strerror or str(problem)).lower()}")
