"""Conversion between the entities of ACL requests and ACLs."""

from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.operations.acls import AclFilterSpec, AclSpec
from headrace.security.acl import AclEntry
from headrace.security.authorizer import Resource


def spec_of(creation: Entity) -> AclSpec:
    """Return the ACL that a CreateAcls request asks for."""
    return AclSpec(
        creation.resource_type,
        str(creation.resource_name),
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def filter_spec_of(wanted: Entity) -> AclFilterSpec:
    """Return the filter of a DescribeAcls or DeleteAcls request."""
    return AclFilterSpec(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


def resource_fields(resource: Resource) -> dict[str, object]:
    """Return a resource pattern as fields of a response entity."""
    return {
        "resource_type": int(resource.kind),
        "resource_name": resource.name,
        "pattern_type": int(resource.pattern),
    }


def entry_fields(entry: AclEntry) -> dict[str, object]:
    """Return an ACL entry as fields of a response entity."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }
