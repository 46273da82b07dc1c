"""Who may do what: the question every frontend asks, and the answer of a broker that allows all.

Kafka's terms and numbers (AclOperation, ResourceType, PatternType). What may be asked is asked at
one place for each API; who answers is exchanged as a whole: an `Authorizer` with rules needs to be
handed to the broker, and nothing else.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.security.identity import Identity


class Operation(IntEnum):
    """What somebody wants to do, as Kafka numbers it."""

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
    """What he wants to do it to, as Kafka numbers it; from `NOT_KAFKAS` on, AMQP's."""

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
    """How a resource's name is meant, as Kafka numbers it."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


NOT_KAFKAS = 1000
"""From this number on types are those of AMQP. No ACL is of them, and no request names them."""
CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER."""

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
"""All that can be done to a resource of a type: what clients who ask are told of."""


class Resource(NamedTuple):
    """One thing that something is done to; requests name it literally, rules may by prefix."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class Authorizer(Protocol):
    """Says who may do what. Asked on the deciding thread; it answers at once, from memory."""

    @property
    def allows_all(self) -> bool:
        """Whether nobody is ever refused anything: then it need not be asked."""

    @property
    def version(self) -> int:
        """Grows whenever an answer may have changed, `allows_all` included.

        Whoever keeps an answer keeps the version with it, and asks again when it is another.
        """

    def allows(self, identity: "Identity", operation: Operation, resource: Resource) -> bool:
        """Tell whether he may do it. What no rule speaks of is refused."""

    def allows_any(self, identity: "Identity", operation: Operation, kind: ResourceType) -> bool:
        """Tell whether a resource of the type can be there that he may do it to (KIP-679)."""


class AllowsAll:
    """Everybody may do everything: a broker without rules. `Authorizer`."""

    allows_all = True
    version = 0

    def allows(self, identity: "Identity", operation: Operation, resource: Resource) -> bool:
        """Permit it."""
        return True

    def allows_any(self, identity: "Identity", operation: Operation, kind: ResourceType) -> bool:
        """Permit it."""
        return True
