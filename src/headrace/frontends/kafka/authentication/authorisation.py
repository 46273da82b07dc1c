"""The permissions that each API needs, in one table, and their checks.

A handler checks permissions before it acts, for the names in its request. A refused resource is
answered with its error, at the place where Kafka 4.3 has it. With an authorizer that allows
everything nothing is checked.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.security.authorizer import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Operation,
    Resource,
    ResourceType,
)
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.frontends.kafka.connection.handler import RequestContext


class Ask(NamedTuple):
    """A permission that an API needs: an operation on a type of resource."""

    operation: Operation
    kind: ResourceType


READ_TOPIC = Ask(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC = Ask(Operation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC = Ask(Operation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC = Ask(Operation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC = Ask(Operation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC = Ask(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Ask(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS = Ask(Operation.ALTER_CONFIGS, ResourceType.TOPIC)
READ_GROUP = Ask(Operation.READ, ResourceType.GROUP)
DELETE_GROUP = Ask(Operation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP = Ask(Operation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS = Ask(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_GROUP_CONFIGS = Ask(Operation.ALTER_CONFIGS, ResourceType.GROUP)
WRITE_TRANSACTION = Ask(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTION = Ask(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
TWO_PHASE_TRANSACTION = Ask(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID)
CREATE_CLUSTER = Ask(Operation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER = Ask(Operation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER = Ask(Operation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = Ask(Operation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION = Ask(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Ask(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS = Ask(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
DESCRIBE_TOKEN = Ask(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS = Ask(Operation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS = Ask(Operation.DESCRIBE_TOKENS, ResourceType.USER)
IDEMPOTENT_WRITE = Ask(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

ASKED: dict[ApiKey, tuple[Ask, ...]] = {
    # A transactional batch needs the transactional id, too, whatever the request says.
    ApiKey.PRODUCE: (WRITE_TOPIC, WRITE_TRANSACTION),
    # A follower's fetch needs CLUSTER_ACTION, and no permission of its topics.
    ApiKey.FETCH: (READ_TOPIC, CLUSTER_ACTION),
    # A follower's CLUSTER_ACTION is enough: brokers need no ACLs of topics.
    ApiKey.LIST_OFFSETS: (DESCRIBE_TOPIC, CLUSTER_ACTION),
    # CREATE if topics are created automatically, of the cluster or of each topic.
    ApiKey.METADATA: (DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    ApiKey.OFFSET_COMMIT: (READ_GROUP, READ_TOPIC),
    ApiKey.OFFSET_FETCH: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    # By the type of key: a group, a transactional id, a share group's partition.
    ApiKey.FIND_COORDINATOR: (DESCRIBE_GROUP, DESCRIBE_TRANSACTION, CLUSTER_ACTION),
    ApiKey.JOIN_GROUP: (READ_GROUP,),
    ApiKey.HEARTBEAT: (READ_GROUP,),
    ApiKey.LEAVE_GROUP: (READ_GROUP,),
    ApiKey.SYNC_GROUP: (READ_GROUP,),
    ApiKey.DESCRIBE_GROUPS: (DESCRIBE_GROUP,),
    # The cluster's permission shows all groups, a group's permission that group.
    ApiKey.LIST_GROUPS: (DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    # The cluster's permission is enough; DESCRIBE_CONFIGS for the settings in the answer.
    ApiKey.CREATE_TOPICS: (CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    # The cluster's permission is enough; DESCRIBE decides whether a topic's name is shown.
    ApiKey.DELETE_TOPICS: (DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC),
    ApiKey.DELETE_RECORDS: (DELETE_TOPIC,),
    # Without a transactional id: IDEMPOTENT_WRITE, or WRITE for any topic (KIP-679). Both for a
    # transaction that never times out, or that is kept (KIP-939).
    ApiKey.INIT_PRODUCER_ID: (
        WRITE_TRANSACTION, TWO_PHASE_TRANSACTION, IDEMPOTENT_WRITE, WRITE_TOPIC,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (CLUSTER_ACTION, DESCRIBE_TOPIC),
    # Up to v3 from clients, later from brokers.
    ApiKey.ADD_PARTITIONS_TO_TXN: (WRITE_TRANSACTION, WRITE_TOPIC, CLUSTER_ACTION),
    ApiKey.ADD_OFFSETS_TO_TXN: (WRITE_TRANSACTION, READ_GROUP),
    ApiKey.END_TXN: (WRITE_TRANSACTION,),
    ApiKey.WRITE_TXN_MARKERS: (ALTER_CLUSTER, CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: (WRITE_TRANSACTION, READ_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_ACLS: (DESCRIBE_CLUSTER,),
    ApiKey.CREATE_ACLS: (ALTER_CLUSTER,),
    ApiKey.DELETE_ACLS: (ALTER_CLUSTER,),
    # Only for another user's token (KIP-373); the user is named as User:NAME.
    ApiKey.CREATE_DELEGATION_TOKEN: (CREATE_TOKENS,),
    # Each shows tokens to users other than their owners, requesters and renewers.
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (DESCRIBE_TOKEN, DESCRIBE_TOKENS),
    # By the type of resource.
    ApiKey.DESCRIBE_CONFIGS: (
        DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS,
    ),
    ApiKey.ALTER_CONFIGS: (ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS,
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (ALTER_CLUSTER,),
    ApiKey.DESCRIBE_LOG_DIRS: (DESCRIBE_CLUSTER,),
    ApiKey.CREATE_PARTITIONS: (ALTER_TOPIC,),
    ApiKey.DELETE_GROUPS: (DELETE_GROUP,),
    ApiKey.ELECT_LEADERS: (ALTER_CLUSTER,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (ALTER_CLUSTER,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE_CLUSTER,),
    ApiKey.OFFSET_DELETE: (DELETE_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (DESCRIBE_CLUSTER_CONFIGS,),
    ApiKey.ALTER_CLIENT_QUOTAS: (ALTER_CLUSTER_CONFIGS,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE_CLUSTER,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTER_CLUSTER,),
    # If the request includes authorized operations, as in Metadata.
    ApiKey.DESCRIBE_CLUSTER: (DESCRIBE_CLUSTER,),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (DESCRIBE_TOPIC,),
    ApiKey.DESCRIBE_PRODUCERS: (READ_TOPIC,),
    # DESCRIBE of topics decides which topics are shown.
    ApiKey.DESCRIBE_TRANSACTIONS: (DESCRIBE_TRANSACTION, DESCRIBE_TOPIC),
    ApiKey.LIST_TRANSACTIONS: (DESCRIBE_TRANSACTION,),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.LIST_CONFIG_RESOURCES: (DESCRIBE_CLUSTER_CONFIGS,),
    ApiKey.SHARE_GROUP_HEARTBEAT: (READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.SHARE_GROUP_DESCRIBE: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.SHARE_FETCH: (READ_GROUP, READ_TOPIC),
    ApiKey.SHARE_ACKNOWLEDGE: (READ_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (READ_GROUP, READ_TOPIC),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (DELETE_GROUP, READ_TOPIC),
}  # fmt: skip
"""The permissions that each API may need, checked before it acts."""

ASKED_OF_BROKERS: dict[ApiKey, tuple[Ask, ...]] = {
    ApiKey.LEADER_AND_ISR: (CLUSTER_ACTION,),
    ApiKey.STOP_REPLICA: (CLUSTER_ACTION,),
    ApiKey.UPDATE_METADATA: (CLUSTER_ACTION,),
    ApiKey.CONTROLLED_SHUTDOWN: (CLUSTER_ACTION,),
    ApiKey.ALTER_PARTITION: (CLUSTER_ACTION,),
    ApiKey.ALLOCATE_PRODUCER_IDS: (CLUSTER_ACTION,),
    ApiKey.DECLARE: (CLUSTER_ACTION,),
    ApiKey.FOLLOW_DECLARATIONS: (CLUSTER_ACTION,),
    ApiKey.COPY_SETTLED: (CLUSTER_ACTION,),
    ApiKey.LEASE_PING: (CLUSTER_ACTION,),
    ApiKey.QUEUE_CALLS: (CLUSTER_ACTION,),
    ApiKey.QUEUE_EVENTS: (CLUSTER_ACTION,),
    ApiKey.CHANGE_QUEUE_TOPICS: (CLUSTER_ACTION,),
    ApiKey.NOTE_ALARM: (CLUSTER_ACTION,),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (CLUSTER_ACTION,),
    ApiKey.READ_SHARE_GROUP_STATE: (CLUSTER_ACTION,),
    ApiKey.WRITE_SHARE_GROUP_STATE: (CLUSTER_ACTION,),
    ApiKey.DELETE_SHARE_GROUP_STATE: (CLUSTER_ACTION,),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (CLUSTER_ACTION,),
}
"""The permissions of requests between brokers, in addition to `between_brokers`."""

NOT_ASKED: dict[ApiKey, str] = {
    ApiKey.API_VERSIONS: "what is served is told to everybody, before he has authenticated",
    ApiKey.SASL_HANDSHAKE: "it leads to authentication: nobody is known yet",
    ApiKey.SASL_AUTHENTICATE: "it leads to authentication: nobody is known yet",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "every client may push what it is asked for (KIP-714)",
    ApiKey.PUSH_TELEMETRY: "every client may push what it is asked for (KIP-714)",
    ApiKey.RENEW_DELEGATION_TOKEN: "its owner and who it names may, and nobody else",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "its owner and who it names may, and nobody else",
}
"""The APIs that need no permission, each with the reason."""

_FAILED = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic"),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group"),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster"),
    ResourceType.USER: (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token"),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id",
    ),
}  # fmt: skip

ALL_OPERATIONS = {
    kind: sum(1 << operation for operation in every) for kind, every in OPERATIONS_OF.items()
}
"""All operations on a type of resource, as the bit set of Kafka's answers."""


def authorization_failed(kind: ResourceType) -> ApiError:
    """Return the error for a refused resource of a type, with Kafka's message."""
    code, what = _FAILED[kind]
    return ApiError(code, f"{what} authorization failed.")


def permits(
    context: "RequestContext", ask: Ask, name: str = CLUSTER_NAME, *, told: bool = True
) -> bool:
    """Tell whether the client has a permission on the resource of a name.

    A refusal is audited, unless not `told`: for a permission that another one may replace, and for
    resources that are merely left out of an answer.
    """
    authorizer = context.broker.authorizer
    if authorizer.allows_all:
        return True
    resource = Resource(ask.kind, name)
    allowed = authorizer.allows(context.identity, ask.operation, resource)
    if not allowed and told:
        context.broker.audit.refused(context.identity, ask.operation, resource)
    return allowed


def permits_any(context: "RequestContext", ask: Ask) -> bool:
    """Return whether the client has a permission on any resource of its type; not audited."""
    authorizer = context.broker.authorizer
    return authorizer.allows_all or authorizer.allows_any(context.identity, ask.operation, ask.kind)


def refusal(context: "RequestContext", ask: Ask, name: str = CLUSTER_NAME) -> ApiError | None:
    """Return the error for a missing permission, or None if the client has it."""
    return None if permits(context, ask, name) else authorization_failed(ask.kind)


def require(context: "RequestContext", ask: Ask, name: str = CLUSTER_NAME) -> None:
    """Raise ApiError if the client does not have a permission."""
    if not permits(context, ask, name):
        raise authorization_failed(ask.kind)


def refused(
    context: "RequestContext", ask: Ask, names: Iterable[str], *, told: bool = True
) -> frozenset[str]:
    """Return the names on which the client does not have a permission, usually none."""
    if context.broker.authorizer.allows_all:
        return frozenset()
    return frozenset(
        name for name in frozenset(names) if not permits(context, ask, name, told=told)
    )


def operations(context: "RequestContext", kind: ResourceType, name: str = CLUSTER_NAME) -> int:
    """Return the client's operations on a resource, as the bit set of Kafka's answers."""
    if context.broker.authorizer.allows_all:
        return ALL_OPERATIONS[kind]
    return sum(
        1 << operation
        for operation in OPERATIONS_OF[kind]
        if permits(context, Ask(operation, kind), name, told=False)
    )


def operations_of_cluster(context: "RequestContext") -> int:
    """Return the client's operations on the cluster as a bit set; 0 without DESCRIBE."""
    if not permits(context, DESCRIBE_CLUSTER, told=False):
        return 0
    return operations(context, ResourceType.CLUSTER)
