"""Assembly of the AMQP frontend of a broker; `server.frontends` imports this file by name."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from headrace.broker.broker import Broker
from headrace.cluster.controller_port import ControllerPort, VhostSettingsPort
from headrace.frontends.amqp import queue_gauges
from headrace.frontends.amqp.administration import Administration
from headrace.frontends.amqp.bounds import bounds_of
from headrace.frontends.amqp.connection.logins import UserLogins
from headrace.frontends.amqp.connection.negotiation import settings_of
from headrace.frontends.amqp.connection.session import AmqpFrontend
from headrace.frontends.amqp.queue_broker import QueueBroker
from headrace.model.errors import ConfigError
from headrace.model.invariant import InvariantError
from headrace.model.protocols import AMQP, AMQP_TOPICS
from headrace.net.write_pass import WritePass, Writes
from headrace.operations.registry import Operations
from headrace.ports.store import Store
from headrace.posix.awaiting import called_back
from headrace.queue_stores.log.copies_port import CopiedFiles
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.memory.spill import Spill
from headrace.queue_stores.memory.spill_files import SpillFiles
from headrace.queues.engine.delivery_turns import Leadership
from headrace.security.configured import parse_super_users, topics_are_open
from headrace.vhosts.access import Admission
from headrace.vhosts.alarms import ResourceAlarms
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.takeover import DeclarationNodes
from headrace.vhosts.durable_queues import DurableQueues
from headrace.vhosts.kafka_admin_of_queue_topics import TopicsOfQueues
from headrace.vhosts.led_queues import LedQueues
from headrace.vhosts.password_migration import PasswordMigration
from headrace.vhosts.read_topics import ReadTopics
from headrace.vhosts.restore import Restoring
from headrace.wire.amqp.settings import AmqpKeys


class Parts(Protocol):
    """The objects that a frontend is made of. Implemented by `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""

    @property
    def writes(self) -> Writes:
        """The writes of a pass, gathered until its end."""

    @property
    def controller(self) -> ControllerPort:
        """The controller, which creates and deletes topics, and stores vhosts and users."""

    @property
    def store(self) -> Store | None:
        """The open metadata store, which has an earlier version's declarations; None: it is not
        available."""

    @property
    def operations(self) -> Operations:
        """Registry for the operations of administrators."""

    @property
    def cluster(self) -> "QueueCluster | None":
        """The links to the other brokers; None: this broker serves no queues of a cluster."""


class QueueCluster(Protocol):
    """The links between brokers that serve queues. Implemented by `server.cluster`."""

    @property
    def settled_copies(self) -> CopiedFiles:
        """The files of queues' settled positions, and their copies."""

    @property
    def queue_leadership(self) -> Leadership | None:
        """The rights to lead queues; None: none is needed."""


class Durable:
    """Durable declarations and messages of one broker, and its spill files.

    Implements `session.DurableState`. Spill files have messages that exceed the memory; they are
    deleted when the broker stops.
    """

    def __init__(
        self,
        parts: Parts,
        declarations: DeclarationLog,
        nodes: DeclarationNodes,
        admission: Admission,
        durable: DurableQueues,
        queues: QueueBroker,
    ) -> None:
        self.logs = durable.of_queues.logs
        self.writes = WritePass(parts.writes)
        self._broker = parts.broker
        self._declarations = declarations
        self._nodes = nodes
        self._admission = admission
        self.queues = durable
        self._virtual_hosts = queues.virtual_hosts
        self._spill = _spill(parts.broker, queues)
        self._led: LedQueues | None = None
        """The queues of a cluster that this broker leads; None: it has no cluster."""
        if parts.cluster is not None:
            self._led = LedQueues(parts.broker, durable, queues.virtual_hosts)

    async def start(self) -> None:
        """Restore declarations and queues, and begin to follow changes of Kafka topics."""
        broker, virtual_hosts = self._broker, self._virtual_hosts
        restoring = Restoring(
            broker,
            self.queues,
            virtual_hosts,
            self._declarations,
            self._nodes,
            in_cluster=self._led is not None,
        )
        await restoring.restore()
        if self._led is not None:
            self._led.begin()
        topics = TopicsOfQueues(broker, self.queues, virtual_hosts, self._admission)
        broker.topic_keepers.add(AMQP_TOPICS, topics)
        ReadTopics(broker.image, virtual_hosts)

    async def stop(self) -> None:
        """Write the state of the queues, close their stores and delete the spill files."""
        if self._led is not None:
            self._led.close()
        removed = asyncio.ensure_future(called_back(self._removed_spill))
        await self.queues.close(
            [store for queue in self._virtual_hosts.queues() for store in queue.late_stores]
        )
        self._declarations.close()
        await removed

    def _removed_spill(self, done: Callable[[None], None]) -> None:
        self._spill.close(lambda: done(None))


def frontend(parts: Parts) -> AmqpFrontend:
    """Return the AMQP frontend; raise ConfigError if the broker belongs to a cluster."""
    store, cluster = parts.store, parts.cluster
    if store is None or (parts.broker.config.zookeeper_connect and cluster is None):
        raise ConfigError(
            "listeners: an AMQP listener needs a single broker, and zookeeper.connect names a"
            " cluster: remove the AMQP listener or zookeeper.connect"
        )
    broker, settings = parts.broker, parts.controller.settings
    config, vhosts = broker.config, settings.stored.get(AMQP.name)
    keys = AmqpKeys.of(config.values)
    if vhosts is None:
        raise InvariantError("a broker with listeners of AMQP has its vhosts and users")
    amqp = cast("VhostSettingsPort", vhosts)
    definitions = amqp.definitions
    super_users = parse_super_users(config.super_users)
    migration = PasswordMigration(settings.users, amqp, broker.random)
    logins = UserLogins(
        broker.users,
        definitions,
        broker.disk,
        lambda host: _failed(broker, host),
        migration.begin,
        super_users.__contains__,
    )
    admission = Admission(
        definitions, broker.authorizer, broker.audit, topics_open=topics_are_open(config)
    )
    bounds = bounds_of(keys)
    memory = MemoryUse(bounds.memory_bytes_max)
    nodes = DeclarationNodes(store)
    declarations = DeclarationLog(broker, parts.controller, nodes.mark_moved)
    copied = None if cluster is None else cluster.settled_copies
    durable = DurableQueues(broker, parts.controller, declarations, memory, copied)
    queues = QueueBroker(
        broker.clock,
        broker.random,
        logins,
        admission,
        bounds=bounds,
        durability=durable,
        memory=memory,
    )
    if cluster is not None:
        queues.virtual_hosts.turns.leadership = cluster.queue_leadership
    parts.operations.add(Administration(broker, queues, settings, amqp).operations)
    made = AmqpFrontend(
        queues,
        settings_of(keys, "headrace"),
        broker.clock,
        Durable(parts, declarations, nodes, admission, durable, queues),
        migration.stop,
    )
    _watch_resources(broker, queues, made.block)
    queues_max = config.metrics_queues_max
    queue_gauges.register(broker.metrics, queues, queues_max, lambda: made.is_blocked)
    return made


def _spill(broker: Broker, queues: QueueBroker) -> Spill:
    """Have messages written to files in the first log directory while memory is short."""
    return Spill(
        queues.memory,
        SpillFiles(broker.disk, broker.config.log_dirs[0]),
        queues.virtual_hosts.deadlines,
        queues.virtual_hosts.queues,
    )


def _watch_resources(
    broker: Broker, queues: QueueBroker, block: Callable[[str | None], None]
) -> None:
    """Block publishers while memory or disk space is low."""
    config = broker.config

    def free_bytes() -> int:
        working = [each.path for each in broker.directories if not each.fenced]
        return min(map(broker.disk.free_bytes, working or config.log_dirs))

    ResourceAlarms(
        queues.virtual_hosts.deadlines,
        queues.memory,
        free_bytes,
        AmqpKeys.of(config.values).amqp_disk_free_bytes_min,
        block,
    )


def _failed(broker: Broker, host: str) -> float:
    """Count a failed login; return the seconds by which the answer is delayed."""
    config = broker.config
    return broker.failed_attempts.delay_seconds(
        host,
        first_ms=config.connection_failed_authentication_delay_ms,
        most_ms=config.connection_failed_authentication_delay_max_ms,
    )
