"""The broker behind all AMQP connections: logins, virtual hosts, the end of each pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.channel.channel import QueueChannel
from headrace.frontends.amqp.channel.consumer_timeouts import ConsumerTimeouts
from headrace.frontends.amqp.channel.direct_replies import DirectReplies
from headrace.frontends.amqp.channel_consumers import HeldConsumers
from headrace.frontends.amqp.client import Client
from headrace.frontends.amqp.connected import ConnectedClients
from headrace.frontends.amqp.connection.partial_publishes import Unfinished
from headrace.model.secret import Secret
from headrace.net.answering import ConnectionTraffic
from headrace.ports.clock import Clock, Random
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queues.engine.hosted_queue import MakeStore, stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.arguments import queue_type_named
from headrace.queues.model.durability import Durability, KeptDone
from headrace.queues.permissions.access import Access
from headrace.queues.permissions.definitions import Definitions, UserDefinition
from headrace.security.identity import Identity, Principal
from headrace.vhosts.policies.visits import PolicyVisits
from headrace.vhosts.users.logins import Credentials, LoginDone, Peer
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations

_NOTHING_KEPT = UserDefinition()
_IMPERSONATOR = "impersonator"


class Logins(Protocol):
    """Authentication of AMQP clients."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Call `done` with the principal or the refusal, now or later."""


_DEFAULT_BOUNDS = Bounds()


class AdmissionPort(Protocol):
    """The vhosts, and users' access to them. Implemented by `vhosts.access.Admission`."""

    @property
    def definitions(self) -> Definitions:
        """All AMQP vhosts and users, with their limits."""

    def may_open(self, identity: Identity, vhost: str) -> bool:
        """Tell whether a user may open a vhost."""

    def access(self, identity: Identity, vhost: str) -> Access:
        """Return a user's permissions in a vhost, which follow later changes."""


class QueueBroker:
    """The vhosts, clients and limits of one broker. Implements `ports.Broker`."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        logins: Logins,
        admission: AdmissionPort,
        make_store: MakeStore | None = None,
        bounds: Bounds = _DEFAULT_BOUNDS,
        durability: Durability | None = None,
        memory: MemoryUse | None = None,
        declarations: "ClusterDeclarations | None" = None,
    ) -> None:
        """Create the queue broker.

        `make_store` None: queues that are not durable store messages in memory.

        `durability` stores durable declarations and queues; None: nothing is durable.

        `declarations`: those of the cluster, which clients' commands change; None: the vhosts have
        their own.
        """
        self.bounds = bounds
        self.memory = memory or MemoryUse(bounds.memory_bytes_max)
        """Memory use of all queues; its callback `on_short` is not set yet."""
        self.now: Callable[[], float] = clock.monotonic
        self.random_bytes: Callable[[], bytes] = random.uuid
        self.replies = DirectReplies(random.uuid)
        self.declarations = declarations
        self.virtual_hosts = VirtualHosts(
            clock,
            random.uuid if declarations is None else declarations.coordinator.name_bytes,
            make_store or stores_in_memory(self.memory),
            durability if declarations is None else declarations,
            random.uniform,
        )
        self.policy_visits = PolicyVisits(clock, self.virtual_hosts)
        if declarations is not None:
            declarations.apply_to(self.virtual_hosts)
        deadlines = self.virtual_hosts.deadlines
        self.timeouts = ConsumerTimeouts(deadlines, bounds.consumer_timeout_ms, self.soon)
        self.unfinished = Unfinished(bounds.unfinished_bytes_max)
        self.held_consumers = HeldConsumers(bounds.consumers_bytes_max)
        self._sweep_at = deadlines.deadline(self._sweep)
        self.memory.on_sweep = self._sweep_soon
        self._logins = logins
        self._admission = admission
        self.clients = ConnectedClients()
        self._publishing: dict[QueueChannel, None] = {}
        self._emptied: set[str] = set()
        """Vhosts whose declarations are deleted, and whose definitions are next."""
        definitions = admission.definitions
        for name in definitions.vhosts:
            self._vhost_changed(name)
        definitions.vhost_changed.append(self._vhost_changed)
        definitions.user_changed.append(self._user_changed)

    # Calls from connections

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Call `done` with the principal or the refusal. Implements `ports.Broker`."""
        self._logins.authenticate(credentials, peer, done)

    def open(
        self,
        principal: Principal,
        virtual_host: str,
        peer: Peer,
        client_properties: FieldTable,
        close: Callable[[str], None],
        traffic: ConnectionTraffic | None = None,
    ) -> Client:
        """Return a vhost for a connection; raise ConnectionClosing if refused.

        Implements `ports.Broker`.
        """
        user, admission = principal.name, self._admission
        host = self.virtual_hosts.hosts.get(virtual_host)
        # Declarations of other brokers may arrive before the vhost's definition.
        if host is None or virtual_host not in admission.definitions.vhosts:
            raise _not_allowed(f"vhost {virtual_host} not found")
        refused = f"access to vhost '{virtual_host}' refused for user '{user}'"
        most = admission.definitions.vhosts[virtual_host].connections_max
        if 0 <= most <= self.clients.count_in(virtual_host):
            raise _not_allowed(f"{refused}: connection limit ({most}) is reached")
        most = self._definition_of(user).connections_max
        if 0 <= most <= self.clients.count_of(user):
            raise _not_allowed(
                f"connection refused for user '{user}': user connection limit ({most}) is reached"
            )
        identity = Identity(peer.host, peer.listener, principal)
        if not admission.may_open(identity, virtual_host):
            raise _not_allowed(refused)
        is_loading = self.declarations is not None and not self.declarations.has_loaded(
            virtual_host
        )
        if is_loading or virtual_host in self._emptied:
            problem = f"{refused}: vhost '{virtual_host}' is down"
            raise ConnectionClosing(ReplyCode.INTERNAL_ERROR, problem)
        access = admission.access(identity, virtual_host)
        client = Client(
            self, host, principal, client_properties, access, peer, close, identity, traffic
        )
        self.clients.add(client)
        return client

    def access(self, identity: Identity, vhost: str) -> Access:
        """Return a user's permissions in a vhost, which follow later changes."""
        return self._admission.access(identity, vhost)

    def impersonates(self, user: str) -> bool:
        """Tell whether a user may set another user's `user-id`: has RabbitMQ's tag impersonator."""
        return _IMPERSONATOR in self._definition_of(user).tags

    def check_channels(self, user: str) -> None:
        """Raise ConnectionClosing NOT_ALLOWED if a user has reached the limit of channels."""
        most = self._definition_of(user).channels_max
        if 0 <= most <= self.clients.channels_of(user):
            raise _not_allowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed user"
                f" limit of ({most})"
            )

    def gone(self, client: Client) -> None:
        """Remove a closed AMQP client from the counts of limits."""
        self.clients.remove(client)

    def _definition_of(self, user: str) -> UserDefinition:
        return self._admission.definitions.users.get(user, _NOTHING_KEPT)

    # Changes by administrators

    def _vhost_changed(self, name: str) -> None:
        """Add, alter or delete a vhost as its definition has changed."""
        vhost = self._admission.definitions.vhosts.get(name)
        hosts = self.virtual_hosts.hosts
        if vhost is not None:
            host = hosts.get(name) or self.virtual_hosts.add(name)
            host.model.queues_max = None if vhost.queues_max < 0 else vhost.queues_max
            host.model.default_queue_type = queue_type_named(vhost.default_queue_type)
        elif name in hosts:
            self._close_clients(name)
            self.clients.vhost_deleted(name)
            self.virtual_hosts.remove(name)
            if self.declarations is not None:
                self.declarations.vhost_deleted(name)
            self.soon()

    def _close_clients(self, vhost: str) -> None:
        for client in self.clients.of_vhost(vhost):
            client.close(f"vhost '{vhost}' is deleted")

    def empty(self, vhost: str, done: KeptDone) -> None:
        """Delete all declarations of a vhost of a single broker; call `done` once that is stored.

        Its definition is deleted next: a vhost without a definition whose declarations are stored
        would have them again when it is created again. No client may open it until `use_again`.
        """
        host = self.virtual_hosts.hosts.get(vhost)
        if host is None:
            done(None)
            return
        self._emptied.add(vhost)
        self._close_clients(vhost)
        host.clear()
        self.soon()
        host.model.kept.when_kept(done)

    def use_again(self, vhost: str) -> None:
        """Accept clients of a vhost again after `empty`: it was deleted, or could not be."""
        self._emptied.discard(vhost)

    def _user_changed(self, name: str) -> None:
        """Close a deleted user's connections, and recheck an altered user's consumers."""
        if name not in self._admission.definitions.users:
            self.close_user(name)
        for client in self.clients.of_user(name):
            client.check_consumers()

    def close_user(self, name: str) -> None:
        """Close all connections of a deleted user."""
        for client in self.clients.of_user(name):
            client.close(f"user '{name}' is deleted")

    def update_secret(self, principal: Principal, secret: Secret) -> None:
        """Accept a new secret without effect: passwords do not expire, as tokens would."""

    def pass_done(self) -> None:
        """Send confirms and deliveries of a connection's pass. Implements `ports.Broker`."""
        publishing = self._publishing
        while publishing:
            channel, _ = publishing.popitem()
            if channel.confirms is not None:
                channel.confirms.flush()
        turns, memory = self.virtual_hosts.turns, self.memory
        if turns.pending or turns.gone:
            turns.run()
        if memory.is_short or memory.bytes >= memory.bytes_max:
            memory.look()

    def _sweep_soon(self) -> None:
        self._sweep_at.set(0)

    def _sweep(self) -> None:
        """Free the memory of settled messages, a part in each turn of the event loop."""
        if self.memory.sweep():
            self._sweep_soon()

    # Calls from clients and channels

    def publishing(self, channel: QueueChannel) -> None:
        """Have a channel's confirms sent when the pass ends."""
        if channel.confirms is not None:
            self._publishing[channel] = None

    def forget(self, channel: QueueChannel) -> None:
        """Forget a closed AMQP channel; its counters stay in those of its vhost."""
        self._publishing.pop(channel, None)
        self.clients.channel_closed(channel.host.name, channel.counts())

    def soon(self) -> None:
        """Have due deliveries made soon, outside of a pass."""
        self.virtual_hosts.turns.soon()

    def close(self) -> None:
        """End all timers: the broker stops. Implements `ports.Broker`."""
        self.virtual_hosts.close()


def _not_allowed(text: str) -> ConnectionClosing:
    return ConnectionClosing(ReplyCode.NOT_ALLOWED, text)
