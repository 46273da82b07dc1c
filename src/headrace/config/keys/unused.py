"""Keys of Kafka 3.9 and 4.3 that have no effect in Headrace: a warning names them.

Headrace starts with a server.properties that works for Kafka. A key is in this list exactly as long
as it has no effect.
"""

from headrace.config.value_types import Definition, Kind, Mode

_SERVER = """
alter.config.policy.class.name
auto.include.jmx.reporter background.threads
broker.heartbeat.interval.ms broker.session.timeout.ms
client.quota.callback.class
config.providers
controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms controller.quorum.append.linger.ms
controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.max.bytes
controller.quorum.fetch.timeout.ms
controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
create.topic.policy.class.name early.start.listeners eligible.leader.replicas.enable
fetch.purgatory.purge.interval.requests initial.broker.registration.timeout.ms
inter.broker.protocol.version
kafka.metrics.polling.interval.secs kafka.metrics.reporters
metadata.log.dir metadata.log.max.record.bytes.between.snapshots
metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.min.bytes
metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms num.io.threads num.network.threads
num.replica.alter.log.dirs.threads password.encoder.cipher.algorithm
password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
password.encoder.old.secret password.encoder.secret principal.builder.class process.roles
queued.max.requests
replica.socket.receive.buffer.bytes request.timeout.ms
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.mechanism.controller.protocol
sasl.oauthbearer.header.urlencode
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
security.providers
server.max.startup.time.ms socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.allow.dn.changes ssl.allow.san.changes
ssl.engine.factory.class ssl.keymanager.algorithm
ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm
unstable.api.versions.enable unstable.feature.versions.enable
unclean.leader.election.interval.ms zookeeper.clientCnxnSocket
zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size
zookeeper.ssl.cipher.suites
zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
zookeeper.ssl.truststore.type
"""

_LOG = """
cordoned.log.dirs
delete.records.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
log.cleaner.threads log.dir.failure.timeout.ms
log.initial.task.delay.ms
log.message.downconversion.enable log.message.format.version
log.message.timestamp.difference.max.ms producer.purgatory.purge.interval.requests
remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds
remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
remote.log.reader.threads remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable
transaction.state.log.load.buffer.size
"""

_GROUPS = """
group.coordinator.append.linger.ms
group.coordinator.append.max.buffer.size group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable
group.coordinator.rebalance.protocols group.coordinator.threads group.share.assignors
group.share.enable
group.share.initialize.retry.interval.ms
group.share.max.groups
group.streams.assignors
group.streams.assignment.interval.ms group.streams.assignor.offload.enable
group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.num.standby.replicas
group.streams.session.timeout.ms offsets.commit.required.acks offsets.load.buffer.size
share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.load.buffer.size
share.coordinator.threads
share.fetch.purgatory.purge.interval.requests
"""

_PER_LISTENER = """
max.connection.creation.rate max.connections
ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type
"""
"""Altered at run time with a listener's prefix only (DynamicBrokerConfig, KIP-226)."""

_PER_BROKER = """
principal.builder.class sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol ssl.cipher.suites
ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm
"""

_CLUSTER_WIDE = """
background.threads follower.fetch.last.tiered.offset.enable log.cleaner.threads
metric.reporters
num.io.threads num.network.threads
remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.follower.thread.pool.size remote.log.reader.threads
"""

_MODES = {
    **dict.fromkeys(_PER_BROKER.split(), Mode.PER_BROKER),
    **dict.fromkeys(_CLUSTER_WIDE.split(), Mode.CLUSTER_WIDE),
}

_SECRET = (
    "sasl.jaas.config",
    "password",
    "keystore.key",
    "keystore.certificate.chain",
    "truststore.certificates",
)
"""Endings of the names of keys whose values no response shows."""
_LISTENER = "listener.name."

UNUSED: frozenset[str] = frozenset((_SERVER + _LOG + _GROUPS).split())

UNUSED_PREFIXES = (
    "listener.name.",
    "config.providers.",
    "rlmm.config.",
    "rsm.config.",
    "metrics.context.",
)
"""Prefixes of unused keys that contain a name chosen by the user."""


def unused_definition(name: str) -> Definition | None:
    """Return the definition of an unused Kafka key, or None if `name` is not one.

    It has the mode in which Kafka alters the key at run time. Any text is a valid value.
    """
    if name not in UNUSED and not name.startswith(UNUSED_PREFIXES):
        return None
    plain, mode = name, Mode.READ_ONLY
    if name.startswith(_LISTENER):
        plain = name.removeprefix(_LISTENER).partition(".")[2]
    if plain in _MODES:
        mode = _MODES[plain] if plain == name else Mode.PER_BROKER
    elif plain != name and plain in _PER_LISTENER.split():
        mode = Mode.PER_BROKER
    kind = Kind.PASSWORD if name.endswith(_SECRET) else Kind.STRING
    return Definition(name, kind, None, "Without effect here.", mode=mode, in_use=False)
