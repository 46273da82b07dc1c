"""RabbitMQ's permissions as rules of the broker's authorizer: `security.rules.RuleSource`.

Requests are operations on a queue, an exchange or a vhost, named with its vhost. Kafka clients see
a queue as a topic (`queue_names`): Kafka's ACLs that deny the topic deny the queue, too, and
permissions of the queue are permissions of its topic.
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.queues.permissions.access import DEFAULT_EXCHANGE_NAME, Permission, Permissions
from headrace.queues.queue_names import is_queue_topic, queue_of_topic, queue_topic
from headrace.queues.refusals import EXCHANGE, KAFKA_TOPIC
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity
from headrace.security.rules import Reach, RuleSource, Ruling

OPERATIONS = {
    Permission.CONFIGURE: Operation.ALTER,
    Permission.WRITE: Operation.WRITE,
    Permission.READ: Operation.READ,
}
"""The authorizer's operation for each permission."""
_OF_KAFKA_TOPICS = OPERATIONS | {Permission.CONFIGURE: Operation.CREATE}
"""Operations on a Kafka topic; configure may create the topic of an exchange."""
_PERMISSIONS = {operation: permission for permission, operation in OPERATIONS.items()}
_OF_TOPICS = {
    Operation.READ: Permission.READ,
    Operation.DESCRIBE: Permission.READ,
    Operation.WRITE: Permission.WRITE,
    Operation.DELETE: Permission.CONFIGURE,
}
"""The queue permission for each operation of a Kafka client on the queue's topic."""
_SEPARATOR = "\n"
"""Separates vhost and name; a vhost's name cannot contain it (`definitions.check_name`)."""


def vhost_resource(vhost: str) -> Resource:
    """Return a vhost as a resource of the broker's authorizer."""
    return Resource(ResourceType.VIRTUAL_HOST, vhost)


def resource_of(kind: str, vhost: str, name: str) -> Resource:
    """Return a queue, an exchange or a Kafka topic as a resource of the authorizer."""
    if kind == KAFKA_TOPIC:
        return Resource(ResourceType.TOPIC, name)
    if kind == EXCHANGE:
        shown = name or DEFAULT_EXCHANGE_NAME
        return Resource(ResourceType.EXCHANGE, f"{vhost}{_SEPARATOR}{shown}")
    return Resource(ResourceType.QUEUE, f"{vhost}{_SEPARATOR}{name}")


def operation_of(kind: str, permission: Permission) -> Operation:
    """Return the authorizer's operation for a permission on a kind of resource."""
    return (_OF_KAFKA_TOPICS if kind == KAFKA_TOPIC else OPERATIONS)[permission]


class _Named(NamedTuple):
    vhost: str
    name: str


class PermissionRules:
    """The AMQP permissions of all users, as rules of the authorizer. Implements `RuleSource`."""

    def __init__(
        self, permissions: Permissions, has_vhost: Callable[[str], bool], others: RuleSource | None
    ) -> None:
        """Create the source of rules from `permissions`.

        `others` are Kafka's ACLs, whose denials of a queue's topic hold for the queue.
        """
        self._permissions = permissions
        self._has_vhost = has_vhost
        self._others = others

    @property
    def version(self) -> int:
        """Number of changes of AMQP permissions so far."""
        return self._permissions.version

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Return the ruling of a user's permissions; `UNRULED` for Kafka's resources."""
        kind, user = resource.kind, identity.principal.name
        if kind is ResourceType.VIRTUAL_HOST:
            return _allowed(self._permissions.has_any(user, resource.name))
        if kind is ResourceType.TOPIC:
            return self._of_topic(user, operation, resource.name)
        if kind not in (ResourceType.QUEUE, ResourceType.EXCHANGE):
            return Ruling.UNRULED
        named = _Named(*resource.name.split(_SEPARATOR, 1))
        if kind is ResourceType.QUEUE and self._others is not None:
            topic = Resource(ResourceType.TOPIC, queue_topic(named.vhost, named.name))
            if self._others.ruling(identity, operation, topic) is Ruling.DENIED:
                return Ruling.DENIED
        permission = _PERMISSIONS[operation]
        return _allowed(self._permissions.allows(user, named.vhost, named.name, permission))

    def _of_topic(self, user: str, operation: Operation, topic: str) -> Ruling:
        if not is_queue_topic(topic):
            return Ruling.UNRULED
        permission, queue = _OF_TOPICS.get(operation), queue_of_topic(topic)
        if queue is None or permission is None or not self._has_vhost(queue.vhost):
            return Ruling.SILENT
        return _allowed(self._permissions.allows(user, queue.vhost, queue.queue, permission))

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return no topics: permissions are not used to list topics for Kafka clients."""
        return Reach([], [], [], [])


def _allowed(allowed: bool) -> Ruling:
    return Ruling.ALLOWED if allowed else Ruling.SILENT
