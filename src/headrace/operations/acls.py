"""CreateAcls, DeleteAcls and DescribeAcls, validated as Kafka 4.3 does (KIP-140, KIP-290).

Each of them returns SECURITY_DISABLED while no authorizer is configured.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.permissions import PERMISSIONS, AdminOperation, authorization_failed
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)

if TYPE_CHECKING:
    from headrace.operations.context import OperationContext

_Member = TypeVar("_Member", bound=IntEnum)
_Asked = TypeVar("_Asked")
_Parsed = TypeVar("_Parsed")
_Changed = TypeVar("_Changed")
_NO_AUTHORIZER = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
"""Kafka's own error text: administrators' tools print it."""


class AclSpec(NamedTuple):
    """An ACL to create, in the numbers of Kafka's protocol; unknown numbers are refused."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilterSpec(NamedTuple):
    """A filter of ACLs, in the numbers of Kafka's protocol; a None field matches any text."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


async def create_acls(
    context: "OperationContext", acls: Sequence[AclSpec]
) -> list[ApiError | None]:
    """Store ACLs; return one error per ACL, None if the ACL is in effect when this returns.

    An error of one ACL does not affect the others.
    """
    outcomes: list[ApiError | None] = await _each(
        context, AdminOperation.CREATE_ACLS, acls, _binding_of, context.controller.settings.acls.add
    )
    for acl, outcome in zip(acls, outcomes, strict=True):
        context.changed(outcome, {"acl": _shown(acl)})
    return outcomes


async def delete_acls(
    context: "OperationContext", filters: Sequence[AclFilterSpec]
) -> list[Sequence[AclBinding] | ApiError]:
    """Delete the ACLs that filters match; return the deleted ACLs or the error of each filter."""
    outcomes: list[Sequence[AclBinding] | ApiError] = await _each(
        context,
        AdminOperation.DELETE_ACLS,
        filters,
        _filter_of,
        context.controller.settings.acls.remove,
    )
    told: dict[AclBinding, None] = {}
    for outcome in outcomes:
        if isinstance(outcome, ApiError):
            context.changed(outcome, {})
            continue
        for binding in outcome:
            if binding not in told:
                told[binding] = None
                context.changed(None, {"acl": _shown(_spec_of(binding))})
    return outcomes


def describe_acls(context: "OperationContext", wanted: AclFilterSpec) -> list[AclBinding]:
    """Return the ACLs that a filter matches, grouped by resource.

    Raises ApiError: not authorized, no authorizer (SECURITY_DISABLED), an invalid filter.
    """
    error = _refusal(context, AdminOperation.DESCRIBE_ACLS)
    if error is not None:
        raise error
    return context.controller.settings.acls.matching(_filter_of(wanted))


async def _each(
    context: "OperationContext",
    operation: AdminOperation,
    asked: Sequence[_Asked],
    parse: Callable[[_Asked], _Parsed],
    change: Callable[[list[_Parsed]], Awaitable[Sequence[_Changed | ApiError]]],
) -> list[_Changed | ApiError]:
    """Parse each element and apply those that are valid; returns each result or error in order."""
    error = _refusal(context, operation)
    if error is not None:
        return [error] * len(asked)
    outcomes: dict[int, _Changed | ApiError] = {}
    wanted: dict[int, _Parsed] = {}
    for at, spec in enumerate(asked):
        try:
            wanted[at] = parse(spec)
        except ApiError as invalid:
            outcomes[at] = invalid
    changed = await change(list(wanted.values()))
    outcomes.update(zip(wanted, changed, strict=True))
    return [outcomes[at] for at in range(len(asked))]


def _refusal(context: "OperationContext", operation: AdminOperation) -> ApiError | None:
    """Return why the caller may not do an ACL operation at all, or None."""
    if not context.permits(operation):
        return authorization_failed(PERMISSIONS[operation].kind)
    return None if context.controller.settings.acls.enabled else _NO_AUTHORIZER


def _shown(acl: AclSpec) -> str:
    """Return an ACL as the text that an audit line shows."""
    pattern = _member(PatternType, acl.pattern_type)
    literal = pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    return (
        f"{_member(Permission, acl.permission).name} {acl.principal} from {acl.host}"
        f" {_member(Operation, acl.operation).name} on {pattern.name if literal else 'UNKNOWN'}"
        f" {_KINDS.get(acl.resource_type, 'UNKNOWN')}:{acl.resource_name}"
    )


_KINDS = {
    kind.value: "TOKEN" if kind is ResourceType.DELEGATION_TOKEN else kind.name
    for kind in ResourceType
}
"""By number: the resource types' names in audit lines."""


def _spec_of(binding: AclBinding) -> AclSpec:
    """Return a stored ACL in the numbers of Kafka's protocol."""
    (kind, name, pattern), entry = binding
    return AclSpec(
        kind, name, pattern, entry.principal, entry.host, entry.operation, entry.permission
    )


def _binding_of(creation: AclSpec) -> AclBinding:
    """Return the ACL to store, from a client's numbers. ApiError INVALID_REQUEST."""
    kind = _member(ResourceType, creation.resource_type)
    pattern = _member(PatternType, creation.pattern_type)
    operation = _member(Operation, creation.operation)
    permission = _member(Permission, creation.permission)
    name = creation.resource_name
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


def _filter_of(wanted: AclFilterSpec) -> AclFilter:
    """Return the filter, from a client's numbers. ApiError INVALID_REQUEST: an unknown number."""
    made = AclFilter(
        _member(ResourceType, wanted.resource_type),
        wanted.resource_name,
        _member(PatternType, wanted.pattern_type),
        wanted.principal,
        wanted.host,
        _member(Operation, wanted.operation),
        _member(Permission, wanted.permission),
    )
    if made.kind is ResourceType.UNKNOWN or made.pattern is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if made.operation is Operation.UNKNOWN or made.permission is Permission.UNKNOWN:
        raise _invalid("Unknown entryFilter.")
    return made


def _member(numbers: type[_Member], number: int) -> _Member:
    """Return the enum member of a number, or UNKNOWN (0) if the number has none."""
    try:
        return numbers(number)
    except ValueError:
        return numbers(0)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
