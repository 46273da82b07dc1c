"""The permission that each administrative operation requires, in one table, and its check."""

from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.tags import Tag, suffices
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Operation,
    Resource,
    ResourceType,
    is_denied,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.security.identity import Identity


class Surface(Enum):
    """The protocol by which an operation was called."""

    KAFKA = "Kafka"
    HTTP = "HTTP"
    MANAGEMENT = "management"
    """RabbitMQ's management API, where the tags of users are rights (ADR 82)."""


class Caller(NamedTuple):
    """The client that calls an operation: its identity and the protocol it uses."""

    identity: "Identity"
    surface: Surface
    by: str = ""
    """The request's name in the audit log; "": the protocol's name."""
    tags: Callable[[], Collection[str]] = tuple
    """Returns the tags that the user has now: one that is removed counts at once."""


class AdminOperation(Enum):
    """Keys of `PERMISSIONS`: operations, and parts of them that have a permission of their own."""

    DESCRIBE_CLUSTER = "describe_cluster"
    LIST_PROTOCOL = "list_protocol"
    """Any registered operation that changes nothing (`operations.registry`)."""
    CHANGE_PROTOCOL = "change_protocol"
    """Any other registered operation."""
    CREATE_ANY_TOPIC = "create_any_topic"
    CREATE_TOPIC = "create_topic"
    DELETE_ANY_TOPIC = "delete_any_topic"
    DELETE_TOPIC = "delete_topic"
    NAME_TOPIC = "name_topic"
    """Return the name of a topic that the client gave by id."""
    CREATE_PARTITIONS = "create_partitions"
    ALTER_TOPIC_CONFIGS = "alter_topic_configs"
    ALTER_GROUP_CONFIGS = "alter_group_configs"
    ALTER_CLUSTER_CONFIGS = "alter_cluster_configs"
    """Settings of brokers, their loggers, and client metrics subscriptions."""
    DESCRIBE_TOPIC_CONFIGS = "describe_topic_configs"
    DESCRIBE_GROUP_CONFIGS = "describe_group_configs"
    DESCRIBE_CLUSTER_CONFIGS = "describe_cluster_configs"
    ALTER_CREDENTIALS = "alter_credentials"
    ALTER_QUOTAS = "alter_quotas"
    ELECT_LEADERS = "elect_leaders"
    REASSIGN_PARTITIONS = "reassign_partitions"
    MOVE_REPLICAS = "move_replicas"
    DELETE_GROUP = "delete_group"
    """A group with its offsets, or some of its offsets."""
    DELETE_OFFSETS_OF_TOPIC = "delete_offsets_of_topic"
    CREATE_ACLS = "create_acls"
    DELETE_ACLS = "delete_acls"
    DESCRIBE_ACLS = "describe_acls"


class RequiredPermission(NamedTuple):
    """The operation and the type of resource that the authorizer is asked about."""

    operation: Operation
    kind: ResourceType
    not_asked: frozenset[Surface] = frozenset()
    """Protocols by which every client may call the operation, without authorization."""
    tag: Tag | None = None
    """The tag that allows it by the management API; None: none does."""


_CLUSTER, _TOPIC, _GROUP = ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP
PERMISSIONS = {
    # Kafka answers DescribeCluster to every client, as Metadata (KIP-700): clients find brokers.
    AdminOperation.DESCRIBE_CLUSTER: RequiredPermission(
        Operation.DESCRIBE, _CLUSTER, frozenset({Surface.KAFKA}), Tag.MANAGEMENT
    ),
    # By the management API each of these two requires its own tag (`Arguments.TAG`).
    AdminOperation.LIST_PROTOCOL: RequiredPermission(Operation.DESCRIBE, _CLUSTER),
    AdminOperation.CHANGE_PROTOCOL: RequiredPermission(Operation.ALTER, _CLUSTER),
    # CREATE or DELETE on the cluster allows it for every topic.
    AdminOperation.CREATE_ANY_TOPIC: RequiredPermission(Operation.CREATE, _CLUSTER),
    AdminOperation.CREATE_TOPIC: RequiredPermission(Operation.CREATE, _TOPIC),
    AdminOperation.DELETE_ANY_TOPIC: RequiredPermission(Operation.DELETE, _CLUSTER),
    AdminOperation.DELETE_TOPIC: RequiredPermission(Operation.DELETE, _TOPIC),
    AdminOperation.NAME_TOPIC: RequiredPermission(Operation.DESCRIBE, _TOPIC),
    AdminOperation.CREATE_PARTITIONS: RequiredPermission(Operation.ALTER, _TOPIC),
    AdminOperation.ALTER_TOPIC_CONFIGS: RequiredPermission(Operation.ALTER_CONFIGS, _TOPIC),
    AdminOperation.ALTER_GROUP_CONFIGS: RequiredPermission(Operation.ALTER_CONFIGS, _GROUP),
    AdminOperation.ALTER_CLUSTER_CONFIGS: RequiredPermission(Operation.ALTER_CONFIGS, _CLUSTER),
    AdminOperation.DESCRIBE_TOPIC_CONFIGS: RequiredPermission(Operation.DESCRIBE_CONFIGS, _TOPIC),
    AdminOperation.DESCRIBE_GROUP_CONFIGS: RequiredPermission(Operation.DESCRIBE_CONFIGS, _GROUP),
    AdminOperation.DESCRIBE_CLUSTER_CONFIGS: RequiredPermission(
        Operation.DESCRIBE_CONFIGS, _CLUSTER
    ),
    AdminOperation.ALTER_CREDENTIALS: RequiredPermission(
        Operation.ALTER, _CLUSTER, tag=Tag.ADMINISTRATOR
    ),
    AdminOperation.ALTER_QUOTAS: RequiredPermission(Operation.ALTER_CONFIGS, _CLUSTER),
    AdminOperation.ELECT_LEADERS: RequiredPermission(Operation.ALTER, _CLUSTER),
    AdminOperation.REASSIGN_PARTITIONS: RequiredPermission(Operation.ALTER, _CLUSTER),
    AdminOperation.MOVE_REPLICAS: RequiredPermission(Operation.ALTER, _CLUSTER),
    AdminOperation.DELETE_GROUP: RequiredPermission(Operation.DELETE, _GROUP),
    AdminOperation.DELETE_OFFSETS_OF_TOPIC: RequiredPermission(Operation.READ, _TOPIC),
    AdminOperation.CREATE_ACLS: RequiredPermission(Operation.ALTER, _CLUSTER),
    AdminOperation.DELETE_ACLS: RequiredPermission(Operation.ALTER, _CLUSTER),
    AdminOperation.DESCRIBE_ACLS: RequiredPermission(Operation.DESCRIBE, _CLUSTER),
}
"""By operation: the permission that is checked before anything is done."""

_REFUSALS = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.",
    ),
}  # fmt: skip
"""By type of resource: the error of a refusal and Kafka's text."""


def authorization_failed(kind: ResourceType) -> ApiError:
    """Return the authorization error of a type of resource, with Kafka's text."""
    return ApiError(*_REFUSALS[kind])


def permitted(
    broker: "Broker",
    caller: Caller,
    operation: AdminOperation,
    name: str = CLUSTER_NAME,
    *,
    told: bool = True,
    tag: Tag | None = None,
) -> bool:
    """Return whether the caller may do `operation` to the resource of this name.

    By the management API the user needs a tag, that of the table or `tag`, and no rule of the
    authorizer may deny the operation.

    A refusal writes one audit line, if `told`. Callers pass False where another permission may
    still suffice, and where an object that the caller may not see is left out of a list. An
    authorizer that allows everything is not asked.
    """
    permission = PERMISSIONS[operation]
    authorizer, identity = broker.authorizer, caller.identity
    resource = Resource(permission.kind, name)
    if caller.surface is Surface.MANAGEMENT:
        required = tag or permission.tag
        allowed = (
            required is not None
            and suffices(caller.tags(), required)
            and not is_denied(authorizer, identity, permission.operation, resource)
        )
    elif authorizer.allows_all or caller.surface in permission.not_asked:
        return True
    else:
        allowed = authorizer.allows(identity, permission.operation, resource)
    if not allowed and told:
        broker.audit.refused(identity, permission.operation, resource)
    return allowed


def require(
    broker: "Broker",
    caller: Caller,
    operation: AdminOperation,
    name: str = CLUSTER_NAME,
    *,
    tag: Tag | None = None,
) -> None:
    """Raise ApiError and write one audit line if the caller may not do `operation`.

    `tag`: that of `permitted`.
    """
    if not permitted(broker, caller, operation, name, tag=tag):
        raise authorization_failed(PERMISSIONS[operation].kind)
