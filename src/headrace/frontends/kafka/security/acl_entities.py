"""ACLs as requests bring them: bindings and filters, read and checked as Kafka 4.3 checks them."""

from enum import IntEnum
from typing import TypeVar

from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)

_Member = TypeVar("_Member", bound=IntEnum)


def binding_of(creation: Entity) -> AclBinding:
    """Return the binding that a request wants to have. ApiError INVALID_REQUEST."""
    kind = _member(ResourceType, creation.resource_type)
    pattern = _member(PatternType, creation.resource_pattern_type)
    operation = _member(Operation, creation.operation)
    permission = _member(Permission, creation.permission_type)
    name = str(creation.resource_name)
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {kind.name}")
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {pattern.name}")
    if operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {operation.name}")
    if permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {permission.name}")
    principal_kind, _, principal_name = creation.principal.partition(":")
    if not principal_kind or not principal_name:
        raise _invalid(
            f"expected a string in format principalType:principalName but got"
            f" {creation.principal[:100]}"
        )
    if not creation.host:
        raise _invalid("Invalid empty host")
    entry = AclEntry(creation.principal, creation.host, operation, permission)
    return AclBinding(Resource(kind, name, pattern), entry)


def filter_of(wanted: Entity) -> AclFilter:
    """Return the filter that a request asks by. ApiError INVALID_REQUEST."""
    made = AclFilter(
        _member(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _member(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _member(Operation, wanted.operation),
        _member(Permission, wanted.permission_type),
    )
    if made.kind is ResourceType.UNKNOWN or made.pattern is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if made.operation is Operation.UNKNOWN or made.permission is Permission.UNKNOWN:
        raise _invalid("Unknown entryFilter.")
    return made


def resource_fields(resource: Resource) -> dict[str, object]:
    """Return a pattern as answers have it."""
    return {
        "resource_type": int(resource.kind),
        "resource_name": resource.name,
        "pattern_type": int(resource.pattern),
    }


def entry_fields(entry: AclEntry) -> dict[str, object]:
    """Return an entry as answers have it."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }


def _member(numbers: type[_Member], number: int) -> _Member:
    """Return the member of a number; of one that nobody knows, UNKNOWN."""
    try:
        return numbers(number)
    except ValueError:
        return numbers(0)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
