"""The permission that each operation asks for, in one table, and one audit line of a refusal."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.security.identity import Identity


class Surface(Enum):
    """The protocol by which an operation is called."""

    KAFKA = "Kafka"
    HTTP = "HTTP"


class Caller(NamedTuple):
    """The client that calls an operation."""

    identity: "Identity"
    surface: Surface
    by: str = ""
    """The request that it is called by, in the audit log; empty: the protocol."""


class AdminOperation(Enum):
    """Every operation."""

    DESCRIBE_CLUSTER = "describe_cluster"
    LIST_PROTOCOL = "list_protocol"
    """Any operation of a protocol that changes nothing (`operations.registry`)."""
    CHANGE_PROTOCOL = "change_protocol"
    """Any other operation of a protocol."""


class RequiredPermission(NamedTuple):
    """The question that an operation asks the authorizer."""

    operation: Operation
    kind: ResourceType
    not_asked: frozenset[Surface] = frozenset()
    """Where the operation is open to every client, by the rules of that protocol."""


PERMISSIONS = {
    # Kafka answers DescribeCluster to every client, as Metadata (KIP-700): clients find brokers.
    AdminOperation.DESCRIBE_CLUSTER: RequiredPermission(
        Operation.DESCRIBE, ResourceType.CLUSTER, frozenset({Surface.KAFKA})
    ),
    AdminOperation.LIST_PROTOCOL: RequiredPermission(Operation.DESCRIBE, ResourceType.CLUSTER),
    AdminOperation.CHANGE_PROTOCOL: RequiredPermission(Operation.ALTER, ResourceType.CLUSTER),
}
"""By operation: the question that comes before anything is done."""

_REFUSALS = {
    ResourceType.CLUSTER: (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.",
    ),
}  # fmt: skip


def require(
    broker: "Broker", caller: Caller, operation: AdminOperation, name: str = CLUSTER_NAME
) -> None:
    """Raise ApiError, and write one audit line, where the caller may not do `operation`.

    `name`: the resource's. An authorizer that allows all is not asked.
    """
    permission = PERMISSIONS[operation]
    authorizer, identity = broker.authorizer, caller.identity
    if authorizer.allows_all or caller.surface in permission.not_asked:
        return
    resource = Resource(permission.kind, name)
    if not authorizer.allows(identity, permission.operation, resource):
        broker.audit.refused(identity, permission.operation, resource)
        raise ApiError(*_REFUSALS[permission.kind])
