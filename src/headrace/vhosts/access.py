"""Permissions of AMQP connections in vhosts, decided by the broker's authorizer."""

from typing import TYPE_CHECKING

from headrace.queues.permissions.access import Access, Permission, access_refused
from headrace.queues.permissions.definitions import Definitions
from headrace.queues.permissions.permission_rules import (
    PermissionRules,
    operation_of,
    resource_of,
    vhost_resource,
)
from headrace.queues.refusals import KAFKA_TOPIC, QUEUE
from headrace.security.acl_rules import acl_rules_of
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Authorizer,
    Operation,
    Resource,
    ResourceType,
)
from headrace.security.identity import Identity
from headrace.security.rules import RuleAuthorizer

if TYPE_CHECKING:
    from headrace.security.audit import Audit

ANSWERS_KEPT_MAX = 4096
"""Allowed permissions that one connection caches at most; above, the cache is cleared."""


class Admission:
    """Users' access to vhosts, and permissions in them. Implements `queue_broker.AdmissionPort`."""

    def __init__(
        self,
        definitions: Definitions,
        authorizer: Authorizer,
        audit: "Audit",
        *,
        topics_open: bool = False,
    ) -> None:
        """Add RabbitMQ-style permissions of users to the rules of `authorizer`.

        `topics_open`: no rule is about Kafka topics; a topic is then authorized like a queue, by
        its name in the vhost.
        """
        self.definitions = definitions
        self.topics_open = topics_open
        self._authorizer = authorizer
        self._audit = audit
        if isinstance(authorizer, RuleAuthorizer):
            rules = PermissionRules(
                definitions.permissions,
                definitions.vhosts.__contains__,
                acl_rules_of(authorizer),
            )
            authorizer.add(rules)

    def may_open(self, identity: Identity, vhost: str) -> bool:
        """Tell whether a user has permissions in a vhost, or all permissions; audit a refusal."""
        resource = vhost_resource(vhost)
        if self._authorizer.allows(identity, Operation.DESCRIBE, resource):
            return True
        self._audit.refused(identity, Operation.DESCRIBE, resource)
        return False

    def access(self, identity: Identity, vhost: str) -> Access:
        """Return a user's permissions in a vhost, which follow later changes of the rules."""
        return GuardedAccess(self, self._authorizer, self._audit, identity, vhost)


class GuardedAccess:
    """The permissions of one connection in its vhost, with a cache.

    Implements `permissions.Access`.
    """

    __slots__ = ("_allowed", "_asked_at", "_audit", "_authorizer", "_identity", "_permissions",
                 "_topics_open", "_vhost")  # fmt: skip

    def __init__(
        self,
        admission: Admission,
        authorizer: Authorizer,
        audit: "Audit",
        identity: Identity,
        vhost: str,
    ) -> None:
        self._permissions = admission.definitions.permissions
        self._topics_open = admission.topics_open
        self._authorizer = authorizer
        self._audit = audit
        self._identity = identity
        self._vhost = vhost
        self._allowed: set[tuple[Permission, str, str]] = set()
        """Permissions that were asked for and allowed; cleared when any rule changes."""
        self._asked_at = -1

    def check(self, permission: Permission, kind: str, name: str) -> None:
        """Raise Refused ACCESS_REFUSED if the user lacks a permission on the named resource."""
        version, allowed = self._authorizer.version, self._allowed
        if version != self._asked_at or len(allowed) >= ANSWERS_KEPT_MAX:
            allowed.clear()
            self._asked_at = version
        question = (permission, kind, name)
        if question in allowed:
            return
        asked = QUEUE if kind == KAFKA_TOPIC and self._topics_open else kind
        operation = operation_of(asked, permission)
        resource = resource_of(asked, self._vhost, name)
        if not (
            self._authorizer.allows(self._identity, operation, resource)
            or (operation is Operation.CREATE and self._may_create_all())
        ):
            self._audit.refused(self._identity, operation, resource)
            user = self._identity.principal.name
            raise access_refused(permission, kind, name, self._vhost, user)
        allowed.add(question)

    def _may_create_all(self) -> bool:
        """Tell whether the user may create any topic: in Kafka, an operation on the cluster."""
        cluster = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
        return self._authorizer.allows(self._identity, Operation.CREATE, cluster)

    def check_topic(self, permission: Permission, exchange: str, routing_key: str) -> None:
        """Raise Refused ACCESS_REFUSED if the user may not use a key on a topic exchange."""
        user = self._identity.principal.name
        self._permissions.check_topic(user, self._vhost, exchange, routing_key, permission)
