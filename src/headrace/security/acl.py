"""Kafka's access control lists as values: entries, the resources they are of, and filters."""

from enum import IntEnum
from typing import NamedTuple

from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType

ANYBODY = "User:*"
"""The principal that stands for every principal."""
ANY_HOST = "*"
ANY_NAME = "*"
"""A literal pattern of this name is of all resources of its type."""


class Permission(IntEnum):
    """Whether an entry allows or denies, as Kafka numbers it (AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclEntry(NamedTuple):
    """Who may, or may not, do what from where."""

    principal: str
    """Kind and name, `User:alice`; `ANYBODY`."""
    host: str
    """An address as text; `ANY_HOST`."""
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """One entry of the resources that a pattern names."""

    resource: Resource
    entry: AclEntry

    def __str__(self) -> str:
        entry, resource = self.entry, self.resource
        return (
            f"{entry.permission.name} {entry.principal} from {entry.host} {entry.operation.name} on"
            f" {resource.pattern.name} {resource.kind.name}:{resource.name}"
        )


class AclFilter(NamedTuple):
    """Which bindings somebody asks for; None and ANY: whatever they are."""

    kind: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    """MATCH: every pattern that `name`, as a resource's name, would come under."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Tell whether it asks for this one."""
        return self.matches_resource(binding.resource) and self.matches_entry(binding.entry)

    def matches_resource(self, resource: Resource) -> bool:
        """Tell whether it asks for entries of this pattern."""
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
        """Tell whether it asks for such an entry, whatever the resource."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )
