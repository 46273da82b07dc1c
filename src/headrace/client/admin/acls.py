"""ACL requests of the client: describe, create, delete (KIP-140, KIP-290)."""

from collections.abc import Sequence
from typing import Any

from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.wire.kafka.api import ApiKey


async def describe_acls(client: Client, wanted: AclFilter) -> list[AclBinding]:
    """Return the ACLs that match a filter, grouped by resource. Raises ApiError."""

    def parse(response: Any) -> list[AclBinding]:  # noqa: ANN401 - kio's entity
        check(response.error_code, response.error_message)
        return [
            AclBinding(_resource(resource), _entry(acl))
            for resource in response.resources
            for acl in resource.acls
        ]

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(**_filter_fields(wanted))

    return await client.ask_any(ColdCall(ApiKey.DESCRIBE_ACLS, build, parse))


async def create_acls(client: Client, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
    """Create ACLs; return for each, in order, its error or None."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        creations = tuple(
            maker.part(
                "AclCreation",
                resource_type=int(resource.kind),
                resource_name=resource.name,
                resource_pattern_type=int(resource.pattern),
                principal=entry.principal,
                host=entry.host,
                operation=int(entry.operation),
                permission_type=int(entry.permission),
            )
            for resource, entry in bindings
        )
        return maker.request(creations=creations)

    def parse(response: Any) -> list[ApiError | None]:  # noqa: ANN401 - kio's entity
        return [_error(result) for result in response.results]

    return await client.ask_controller(ColdCall(ApiKey.CREATE_ACLS, build, parse))


async def delete_acls(client: Client, wanted: AclFilter) -> list[AclBinding]:
    """Delete the ACLs that match a filter and return them. Raises ApiError."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(filters=(maker.part("DeleteAclsFilter", **_filter_fields(wanted)),))

    def parse(response: Any) -> list[AclBinding]:  # noqa: ANN401 - kio's entity
        deleted = []
        for result in response.filter_results:
            check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                check(acl.error_code, acl.error_message)
                deleted.append(AclBinding(_resource(acl), _entry(acl)))
        return deleted

    return await client.ask_controller(ColdCall(ApiKey.DELETE_ACLS, build, parse))


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": int(wanted.kind),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": int(wanted.pattern),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission),
    }


def _resource(part: Any) -> Resource:  # noqa: ANN401 - kio's entity
    return Resource(
        ResourceType(part.resource_type), part.resource_name, PatternType(part.pattern_type)
    )


def _entry(part: Any) -> AclEntry:  # noqa: ANN401 - kio's entity
    return AclEntry(
        part.principal, part.host, Operation(part.operation), Permission(part.permission_type)
    )


def _error(result: Any) -> ApiError | None:  # noqa: ANN401 - kio's entity
    if not result.error_code:
        return None
    return ApiError(error_code(result.error_code), result.error_message)
