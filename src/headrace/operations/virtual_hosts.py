"""Operations on virtual hosts, users, permissions, policies, connections: arguments and results.

The AMQP frontend registers their implementations (`operations.registry`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from headrace.operations.arguments import Arguments
from headrace.operations.tags import Tag

# virtual hosts


class VhostDescription(NamedTuple):
    """A virtual host, its limits, and how many connections and queues it has; a limit < 0: none."""

    name: str
    description: str
    max_connections: int
    max_queues: int
    connections: int
    queues: int


@dataclass(frozen=True)
class CreateVhost(Arguments[None]):
    """Create a virtual host."""

    OPERATION = "vhost.create"
    name: str
    description: str | None = None
    max_connections: int | None = None
    max_queues: int | None = None
    tags: tuple[str, ...] | None = None
    default_queue_type: str | None = None
    """The type of durable queues that are declared without one; empty: classic."""
    tracing: bool | None = None
    protected: bool | None = None
    """Whether the virtual host cannot be deleted."""
    owner: str | None = None
    """The user who gets all permissions in it."""


@dataclass(frozen=True)
class AlterVhost(Arguments[None]):
    """Change a virtual host's fields, as those of `CreateVhost`; None leaves one unchanged."""

    OPERATION = "vhost.alter"
    name: str
    description: str | None = None
    max_connections: int | None = None
    max_queues: int | None = None
    tags: tuple[str, ...] | None = None
    default_queue_type: str | None = None
    tracing: bool | None = None
    protected: bool | None = None


@dataclass(frozen=True)
class DeleteVhost(Arguments[None]):
    """Delete a virtual host with its queues and all permissions in it."""

    OPERATION = "vhost.delete"
    name: str


@dataclass(frozen=True)
class ListVhosts(Arguments[list[VhostDescription]]):
    """List all virtual hosts."""

    OPERATION = "vhost.list"
    MUTATES = False


# users


class UserDescription(NamedTuple):
    """A user's tags, limits and open connections; a limit < 0: no limit."""

    name: str
    tags: tuple[str, ...]
    max_connections: int
    max_channels: int
    connections: int
    hashed: bool
    """Whether the user has an imported password hash and no credential yet."""


@dataclass(frozen=True)
class PutUser(Arguments[None]):
    """Store a user's tags, limits, password or imported hash; None leaves them unchanged."""

    OPERATION = "user.put"
    SECRETS: ClassVar[frozenset[str]] = frozenset({"hash", "password"})
    name: str
    tags: tuple[str, ...] | None = None
    max_connections: int | None = None
    max_channels: int | None = None
    hash: str | None = None
    """In place of a password."""
    algorithm: str | None = None
    password: str | None = None
    """Becomes SCRAM credentials, in place of a hash; empty: the user cannot log in."""


@dataclass(frozen=True)
class DeleteUser(Arguments[None]):
    """Delete a user with its credentials and permissions, and close its connections."""

    OPERATION = "user.delete"
    name: str


@dataclass(frozen=True)
class ListUsers(Arguments[list[UserDescription]]):
    """List all AMQP users that have tags, limits or permissions."""

    OPERATION = "user.list"
    MUTATES = False


# permissions


class PermissionDescription(NamedTuple):
    """A user's permissions in a virtual host: regular expressions of names."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionDescription(NamedTuple):
    """A user's permissions on routing keys of a topic exchange: regular expressions."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True)
class SetPermission(Arguments[None]):
    """Set a user's permissions in a virtual host."""

    OPERATION = "permission.set"
    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True)
class ClearPermission(Arguments[None]):
    """Remove a user's permissions in a virtual host."""

    OPERATION = "permission.clear"
    user: str
    vhost: str


@dataclass(frozen=True)
class ListPermissions(Arguments[list[PermissionDescription]]):
    """List permissions, or those of one virtual host or user."""

    OPERATION = "permission.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class SetTopicPermission(Arguments[None]):
    """Set a user's permissions on the routing keys of a topic exchange."""

    OPERATION = "topic-permission.set"
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True)
class ClearTopicPermission(Arguments[None]):
    """Remove a user's permissions on routing keys: of one exchange, or of all in the vhost."""

    OPERATION = "topic-permission.clear"
    user: str
    vhost: str
    exchange: str | None = None


@dataclass(frozen=True)
class ListTopicPermissions(Arguments[list[TopicPermissionDescription]]):
    """List permissions on routing keys, or those of one virtual host or user."""

    OPERATION = "topic-permission.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None


# policies


class PolicySet(NamedTuple):
    """The result of a policy's change."""

    created: bool
    """False: it existed, as far as the broker that was asked knew."""


@dataclass(frozen=True)
class SetPolicy(Arguments[PolicySet]):
    """Set a policy of a virtual host, and have it applied to queues and exchanges."""

    OPERATION = "policy.set"
    TAG = Tag.POLICYMAKER
    vhost: str
    name: str
    value: Mapping[str, object]
    """`pattern`, `definition`, `priority` and `apply-to`, as in RabbitMQ's API."""


@dataclass(frozen=True)
class SetOperatorPolicy(SetPolicy):
    """Set an operator policy, likewise."""

    OPERATION = "operator-policy.set"
    TAG = Tag.ADMINISTRATOR


@dataclass(frozen=True)
class ClearPolicy(Arguments[None]):
    """Delete a policy of a virtual host, and end its effect on queues and exchanges."""

    OPERATION = "policy.clear"
    TAG = Tag.POLICYMAKER
    vhost: str
    name: str


@dataclass(frozen=True)
class ClearOperatorPolicy(ClearPolicy):
    """Delete an operator policy, likewise."""

    OPERATION = "operator-policy.clear"
    TAG = Tag.ADMINISTRATOR


# global parameters


@dataclass(frozen=True)
class SetGlobalParameter(Arguments[None]):
    """Set a named value of the cluster, as a text of JSON."""

    OPERATION = "global-parameter.set"
    TAG = Tag.POLICYMAKER
    name: str
    value: str


@dataclass(frozen=True)
class ClearGlobalParameter(Arguments[None]):
    """Delete a named value of the cluster."""

    OPERATION = "global-parameter.clear"
    TAG = Tag.POLICYMAKER
    name: str


# connections


class ConnectionDescription(NamedTuple):
    """An open AMQP connection: its user, vhost, listener, peer address and channels."""

    name: str
    user: str
    vhost: str
    listener: str
    peer_host: str
    peer_port: int
    channels: int
    client: Mapping[str, str]
    """The client's product, version, platform and connection_name, as it sent them."""


class ChannelDescription(NamedTuple):
    """An open channel, with its consumers, unacknowledged messages and mode."""

    connection: str
    number: int
    user: str
    vhost: str
    consumers: int
    messages_unacknowledged: int
    prefetch_count: int
    global_prefetch_count: int
    confirm: bool
    transactional: bool


@dataclass(frozen=True)
class CloseConnections(Arguments[int]):
    """Close the connection named `name`, or all of a user; the result is the number closed."""

    OPERATION = "connection.close"
    user: str | None = None
    name: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ListConnections(Arguments[list[ConnectionDescription]]):
    """List AMQP connections, or those of one virtual host or user."""

    OPERATION = "connection.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class ListChannels(Arguments[list[ChannelDescription]]):
    """List channels, or those of one virtual host or user."""

    OPERATION = "channel.list"
    MUTATES = False
    vhost: str | None = None
    user: str | None = None
