"""Assembly of the AMQP frontend of a broker; `server.frontends` imports this file by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headrace.broker.broker import Broker
from headrace.frontends.amqp import queue_gauges
from headrace.frontends.amqp.administration import Administration
from headrace.frontends.amqp.bounds import Bounds, bounds_of
from headrace.frontends.amqp.connection.negotiation import settings_of
from headrace.frontends.amqp.connection.session import AmqpFrontend
from headrace.frontends.amqp.durable_state import OwnState
from headrace.frontends.amqp.parts import Parts, QueueCluster
from headrace.frontends.amqp.queue_broker import QueueBroker
from headrace.model.errors import ConfigError
from headrace.model.invariant import InvariantError
from headrace.model.protocols import AMQP
from headrace.ports.store import Store
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.security.configured import parse_super_users, topics_are_open
from headrace.vhosts.access import Admission
from headrace.vhosts.alarms import ResourceAlarms
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.takeover import DeclarationNodes
from headrace.vhosts.durable_queues import DurableQueues
from headrace.vhosts.users.accounts import Accounts
from headrace.vhosts.users.logins import UserLogins
from headrace.vhosts.users.password_migration import PasswordMigration
from headrace.wire.amqp.settings import AmqpKeys

if TYPE_CHECKING:
    from headrace.frontends.amqp.connection.awaited_declarations import AwaitedDeclarations
    from headrace.frontends.amqp.in_cluster import ClusterState
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
    from headrace.vhosts.vhost_settings_port import VhostSettingsPort


def frontend(parts: Parts) -> AmqpFrontend:
    """Return the AMQP frontend. ConfigError: the metadata store is not available."""
    store, cluster = parts.store, parts.cluster
    if store is None:
        raise ConfigError("listeners: an AMQP listener needs the metadata store")
    broker, settings = parts.broker, parts.controller.settings
    super_users = parse_super_users(broker.config.super_users)
    config, vhosts = broker.config, settings.stored.get(AMQP.name)
    keys = AmqpKeys.of(config.values)
    if vhosts is None:
        raise InvariantError("a broker with listeners of AMQP has its vhosts and users")
    amqp = cast("VhostSettingsPort", vhosts)
    migration = PasswordMigration(settings.users, amqp, broker.random)
    logins = UserLogins(
        broker.users,
        amqp.definitions,
        broker.disk,
        lambda host: _failed(broker, host),
        migration.begin,
        super_users.__contains__,
    )
    admission = Admission(
        amqp.definitions, broker.authorizer, broker.audit, topics_open=topics_are_open(config)
    )
    bounds = bounds_of(keys)
    queues, state = (
        _of_one_broker(parts, store, logins, admission, bounds)
        if cluster is None
        else _of_cluster(parts, store, cluster, logins, admission, bounds)
    )
    made = AmqpFrontend(
        queues,
        settings_of(keys, "headrace"),
        broker.clock,
        state,
        migration.stop,
        None if queues.declarations is None else _awaited(broker, queues.declarations),
        None if cluster is None else lambda: queues.virtual_hosts.turns.guard,
    )
    made.accounts = Accounts(logins, amqp.definitions, super_users)
    parts.operations.add(Administration(broker, queues, settings, amqp).operations)
    _follow_maintenance(broker, made)
    _watch_resources(parts, queues, made.block)
    queues_max = config.metrics_queues_max
    queue_gauges.register(broker.metrics, queues, queues_max, lambda: made.is_blocked)
    return made


def _of_one_broker(
    parts: Parts, store: Store, logins: UserLogins, admission: Admission, bounds: Bounds
) -> tuple[QueueBroker, OwnState]:
    """Return the vhosts and the state of a broker with declarations of its own."""
    broker, memory = parts.broker, MemoryUse(bounds.memory_bytes_max)
    nodes = DeclarationNodes(store)
    declarations = DeclarationLog(broker, parts.controller, nodes.mark_moved)
    durable = DurableQueues(broker, parts.controller, declarations, memory)
    queues = QueueBroker(
        broker.clock,
        broker.random,
        logins,
        admission,
        bounds=bounds,
        durability=durable,
        memory=memory,
    )
    return queues, OwnState(parts, declarations, nodes, admission, durable, queues)


def _of_cluster(
    parts: Parts,
    store: Store,
    cluster: QueueCluster,
    logins: UserLogins,
    admission: Admission,
    bounds: Bounds,
) -> "tuple[QueueBroker, ClusterState]":
    """Return the vhosts and the state of a broker with the declarations of its cluster."""
    from headrace.frontends.amqp.in_cluster import ClusterState, queue_topics

    broker, memory = parts.broker, MemoryUse(bounds.memory_bytes_max)
    topics = queue_topics(parts, cluster, memory)
    declarations = cluster.follow(topics, admission.access, DeclarationNodes(store))
    queues = QueueBroker(
        broker.clock,
        broker.random,
        logins,
        admission,
        bounds=bounds,
        memory=memory,
        declarations=declarations,
    )
    return queues, ClusterState(parts, cluster, topics, queues, declarations, admission)


def _awaited(broker: Broker, declarations: "ClusterDeclarations") -> "AwaitedDeclarations":
    from headrace.frontends.amqp.connection.awaited_declarations import AwaitedDeclarations

    return AwaitedDeclarations(broker.clock, lambda: declarations.are_loaded)


def _follow_maintenance(broker: Broker, made: AmqpFrontend) -> None:
    """Serve no clients while the broker is drained (`broker.drained`)."""

    def look(_: object, structural: bool) -> None:
        drained = broker.broker_id in broker.image.drained
        if drained != made.is_drained:
            made.drain(drained)

    broker.image.observers.append(look)
    look(None, True)


def _watch_resources(
    parts: Parts, queues: QueueBroker, block: Callable[[str | None], None]
) -> None:
    """Block publishers while memory or disk space is low, on any broker of the cluster."""
    broker, config = parts.broker, parts.broker.config
    shared = None if parts.cluster is None else parts.cluster.share_alarms(block)

    def free_bytes() -> int:
        working = [each.path for each in broker.directories if not each.fenced]
        return min(map(broker.disk.free_bytes, working or config.log_dirs))

    def changed(reason: str | None) -> None:
        if shared is None:
            block(reason)
        else:
            shared(alarms.low)

    alarms = ResourceAlarms(
        queues.virtual_hosts.deadlines,
        queues.memory,
        free_bytes,
        AmqpKeys.of(config.values).amqp_disk_free_bytes_min,
        changed,
    )


def _failed(broker: Broker, host: str) -> float:
    """Count a failed login; return the seconds by which the answer is delayed."""
    config = broker.config
    return broker.failed_attempts.delay_seconds(
        host,
        first_ms=config.connection_failed_authentication_delay_ms,
        most_ms=config.connection_failed_authentication_delay_max_ms,
    )
