"""The authorizer interface, and the authorizer of a broker that allows everything.

Terms and numbers are Kafka's (AclOperation, ResourceType, PatternType). Each API has one place that
calls the authorizer; another authorizer is installed by passing it to the broker.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.security.identity import Identity


class Operation(IntEnum):
    """An operation on a resource; numbered as Kafka's AclOperation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The type of a resource, numbered as Kafka's ResourceType; AMQP's types start at
    `NOT_KAFKAS`."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7
    VIRTUAL_HOST = 1000
    QUEUE = 1001
    EXCHANGE = 1002


class PatternType(IntEnum):
    """How a resource name is matched; numbered as Kafka's PatternType."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


NOT_KAFKAS = 1000
"""First number of the resource types of AMQP, which no ACL and no Kafka request can name."""
CLUSTER_NAME = "kafka-cluster"
"""Name of the only resource of type CLUSTER."""

OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""All operations on a resource type, which clients can request to see (authorized operations)."""


class Resource(NamedTuple):
    """A resource or resource pattern; requests use literal names, ACLs may use prefixes."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class Authorizer(Protocol):
    """Decides which operations are allowed. Called on the deciding thread; answers from memory."""

    @property
    def allows_all(self) -> bool:
        """Whether every operation is allowed, so that `allows` need not be called."""

    @property
    def version(self) -> int:
        """Version of the rules: grows whenever a decision, or `allows_all`, may have changed.

        A caller that caches a decision must store the version with it, and ask again when it
        differs.
        """

    def allows(self, identity: "Identity", operation: Operation, resource: Resource) -> bool:
        """Return whether the identity may perform the operation; without a matching rule, it may
        not."""

    def allows_any(self, identity: "Identity", operation: Operation, kind: ResourceType) -> bool:
        """Return whether any resource of the type could allow the operation to the identity
        (KIP-679)."""


def is_denied(
    authorizer: Authorizer, identity: "Identity", operation: Operation, resource: Resource
) -> bool:
    """Return whether a rule denies an operation that the rights of a protocol allow.

    An authorizer without a method `denies` denies nothing.
    """
    denies = getattr(authorizer, "denies", None)
    return denies is not None and bool(denies(identity, operation, resource))


class AllowsAll:
    """An `Authorizer` that allows everything, for a broker without rules."""

    allows_all = True
    version = 0

    def allows(self, identity: "Identity", operation: Operation, resource: Resource) -> bool:
        """Return True."""
        return True

    def allows_any(self, identity: "Identity", operation: Operation, kind: ResourceType) -> bool:
        """Return True."""
        return True
