"""Kafka's access control lists as values: entries, resource patterns and filters."""

from enum import IntEnum
from typing import NamedTuple

from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType

ANYBODY = "User:*"
"""The wildcard principal, which matches every principal."""
ANY_HOST = "*"
ANY_NAME = "*"
"""The wildcard name: a literal pattern with it matches all resources of its type."""


class Permission(IntEnum):
    """Whether an ACL allows or denies; numbered as Kafka's AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclEntry(NamedTuple):
    """An ACL without its resource: principal, host, operation, permission."""

    principal: str
    """The principal as type and name, `User:alice`, or `ANYBODY`."""
    host: str
    """An IP address as text, or `ANY_HOST`."""
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """An ACL: a resource pattern and an entry."""

    resource: Resource
    entry: AclEntry

    def __str__(self) -> str:
        entry, resource = self.entry, self.resource
        return (
            f"{entry.permission.name} {entry.principal} from {entry.host} {entry.operation.name} on"
            f" {resource.pattern.name} {resource.kind.name}:{resource.name}"
        )


class AclFilter(NamedTuple):
    """A filter of ACLs; None and ANY match every value."""

    kind: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    """The pattern type; MATCH: every pattern that applies to a resource called `name`."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter matches an ACL."""
        return self.matches_resource(binding.resource) and self.matches_entry(binding.entry)

    def matches_resource(self, resource: Resource) -> bool:
        """Return whether the filter matches ACLs of this resource pattern."""
        if self.kind not in (ResourceType.ANY, resource.kind):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == resource.name
        if resource.pattern is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name in (self.name, ANY_NAME)

    def matches_entry(self, entry: AclEntry) -> bool:
        """Return whether the filter matches this entry, on any resource."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )
