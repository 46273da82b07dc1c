"""`headrace acl`: create, list and delete ACLs, with the options of kafka-acls."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

from cyclopts import App, Parameter

from headrace.client.admin.acls import create_acls, delete_acls, describe_acls
from headrace.client.sync import run
from headrace.model.errors import ApiError
from headrace.security.acl import ANY_HOST, AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import UsageError, error_json, line_of
from headrace.terminal.output import note_error, print_json, print_list, print_table

app = App(name="acl", help="Create, list and delete ACLs: who may do what.")

_OPERATIONS = {
    operation.name.lower().replace("_", "-"): operation
    for operation in Operation
    if operation >= Operation.ALL
}
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTION = ResourceType.TRANSACTIONAL_ID
_PRODUCER = {
    _TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    _TRANSACTION: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER = {_TOPIC: (Operation.READ, Operation.DESCRIBE), _GROUP: (Operation.READ,)}


@Parameter(name="*")
@dataclass(frozen=True)
class ResourceOptions:
    """Options that name the resources of ACLs."""

    topic: Annotated[tuple[str, ...], Parameter(help="This topic; '*' is every one.")] = ()
    group: Annotated[tuple[str, ...], Parameter(help="This consumer or share group.")] = ()
    transactional_id: Annotated[tuple[str, ...], Parameter(help="This transactional id.")] = ()
    of_cluster: Annotated[bool, Parameter(name="--cluster", help="The cluster as a whole.")] = False
    prefixed: Annotated[bool, Parameter(help="All whose names begin with the name given.")] = False

    def resources(self) -> list[Resource]:
        """Return the resource patterns that the options name."""
        pattern = PatternType.PREFIXED if self.prefixed else PatternType.LITERAL
        named = ((_TOPIC, self.topic), (_GROUP, self.group), (_TRANSACTION, self.transactional_id))
        found = [Resource(kind, name, pattern) for kind, names in named for name in names]
        if self.of_cluster:
            found.append(Resource(_CLUSTER, CLUSTER_NAME))
        return found


@Parameter(name="*")
@dataclass(frozen=True)
class EntryOptions:
    """Options that name the principals, operations and hosts of ACLs."""

    allow: Annotated[
        tuple[str, ...],
        Parameter(name="--allow-principal", help="Who is allowed: User:alice, or 'User:*'."),
    ] = ()
    deny: Annotated[
        tuple[str, ...],
        Parameter(name="--deny-principal", help="Who is denied; that wins over what is allowed."),
    ] = ()
    operation: Annotated[
        tuple[str, ...],
        Parameter(help=f"One of {', '.join(_OPERATIONS)}; all without any."),
    ] = ()
    host: Annotated[
        tuple[str, ...],
        Parameter(help="The address they come from; any without one."),
    ] = ()

    def principals(self) -> list[tuple[Permission, str]]:
        """Return (ALLOW or DENY, principal) for each option, the allowed first.

        Raises UsageError if a principal is not `TYPE:NAME`.
        """
        found = [(Permission.ALLOW, principal) for principal in self.allow]
        found += [(Permission.DENY, principal) for principal in self.deny]
        for _, principal in found:
            kind, _, name = principal.partition(":")
            if not kind or not name:
                raise UsageError(f"{principal}: a principal is User:NAME")
        return found

    def operations(self) -> list[Operation]:
        """Return the operations that the options name. Raises UsageError."""
        found = []
        for word in self.operation:
            operation = _OPERATIONS.get(word.lower().replace("_", "-")) or _by_kafkas_name(word)
            if operation is None:
                raise UsageError(f"--operation {word}: must be one of {', '.join(_OPERATIONS)}")
            found.append(operation)
        return found


def _by_kafkas_name(word: str) -> Operation | None:
    """Return the operation of a name in Kafka's spelling, such as DescribeConfigs, or None."""
    bare = {name.replace("-", ""): operation for name, operation in _OPERATIONS.items()}
    return bare.get(word.lower())


@app.command(alias="add")
def create(
    *,
    of: ResourceOptions = ResourceOptions(),
    entry: EntryOptions = EntryOptions(),
    producer: Annotated[bool, Parameter(help="What a producer needs of the topic.")] = False,
    consumer: Annotated[
        bool, Parameter(help="What a consumer needs of the topic and the group.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Allow or deny something; it holds at once.

    For example: headrace acl create --allow-principal User:alice --operation read --topic orders;
    headrace acl create --allow-principal User:etl --consumer --topic orders --group etl
    """
    wanted = _bindings(of, entry, producer=producer, consumer=consumer)
    with cluster.client() as client:
        outcomes = run(create_acls(client, wanted))
    _show_created(wanted, outcomes, json=json)
    failed = [line_of(error)[1] for error in outcomes if error is not None]
    return failed[0] if failed else 0


def _show_created(wanted: list[AclBinding], outcomes: list[ApiError | None], *, json: bool) -> None:
    if json:
        print_json(
            [
                {**_json(binding), "error": None if error is None else error_json(error)}
                for binding, error in zip(wanted, outcomes, strict=True)
            ]
        )
        return
    created = [binding for binding, error in zip(wanted, outcomes, strict=True) if error is None]
    print_table(_COLUMNS, [[*_json(binding).values()] for binding in created])
    for binding, error in zip(wanted, outcomes, strict=True):
        if error is not None:
            note_error(f"{binding}: {line_of(error)[0]}")


@app.command(name="list", alias=["ls", "describe"])
def list_(
    *,
    of: ResourceOptions = ResourceOptions(),
    principal: Annotated[str | None, Parameter(help="Only those that name this principal.")] = None,
    match: Annotated[
        bool,
        Parameter(help="All that hold for the resource: prefixed and '*' too."),
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List ACLs: all, or those of a resource or a principal.

    For example: headrace acl list; headrace acl list --topic orders --match
    """
    if match and of.prefixed:
        raise UsageError("--match goes without --prefixed: it finds those too")
    filters = [
        AclFilter(
            resource.kind,
            resource.name,
            PatternType.MATCH if match else resource.pattern,
            principal,
        )
        for resource in of.resources()
    ] or [AclFilter(principal=principal)]
    with cluster.client() as client:
        found = {
            binding: None for wanted in filters for binding in run(describe_acls(client, wanted))
        }
    _show(found, none="no ACLs are there", json=json)


@app.command(alias=["rm", "remove"])
def delete(
    *,
    of: ResourceOptions = ResourceOptions(),
    entry: EntryOptions = EntryOptions(),
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete ACLs: of the resource, all but where a principal, an operation or a host is named.

    For example: headrace acl delete --topic orders --allow-principal User:alice --operation read
    """
    resources = of.resources()
    if not resources:
        raise UsageError("say of what: --topic, --group, --transactional-id or --cluster")
    principals: list[tuple[Permission, str | None]] = [*entry.principals()]
    filters = [
        AclFilter(resource.kind, resource.name, resource.pattern, who, host, operation, permission)
        for resource, (permission, who), operation, host in product(
            resources,
            principals or [(Permission.ANY, None)],
            entry.operations() or [Operation.ANY],
            entry.host or [None],
        )
    ]
    with cluster.client() as client:
        there = {
            binding: None for wanted in filters for binding in run(describe_acls(client, wanted))
        }
        if there:
            confirm(f"delete {len(there)} ACLs ({'; '.join(map(str, there))})?", yes=yes)
        deleted = {
            binding: None for wanted in filters for binding in run(delete_acls(client, wanted))
        }
    none = "no such ACLs are there: nothing was deleted; see: headrace acl list"
    _show(deleted, none=none, json=json)


def _bindings(
    of: ResourceOptions, entry: EntryOptions, *, producer: bool, consumer: bool
) -> list[AclBinding]:
    """Return the ACLs to create, one per resource, principal, host and operation.

    Raises UsageError.
    """
    resources, principals = of.resources(), entry.principals()
    operations = entry.operations()
    if not principals:
        raise UsageError("say who: --allow-principal User:NAME, or --deny-principal")
    if not resources:
        raise UsageError("say of what: --topic, --group, --transactional-id or --cluster")
    if (producer or consumer) and operations:
        raise UsageError("--producer and --consumer name the operations: leave --operation away")
    if (producer or consumer) and not of.topic:
        raise UsageError("--producer and --consumer need --topic")
    if consumer and not of.group:
        raise UsageError("--consumer needs --group")
    roles = [role for role, on in ((_PRODUCER, producer), (_CONSUMER, consumer)) if on]
    found: dict[AclBinding, None] = {}
    for resource, (permission, principal), host in product(
        resources, principals, entry.host or [ANY_HOST]
    ):
        needed = [operation for role in roles for operation in role.get(resource.kind, ())]
        if roles and not needed:
            raise UsageError(f"neither role asks anything of {resource.kind.name.lower()}s")
        for operation in needed or operations or [Operation.ALL]:
            found[AclBinding(resource, AclEntry(principal, host, operation, permission))] = None
    return list(found)


def _show(bindings: Iterable[AclBinding], *, none: str, json: bool) -> None:
    found = [_json(binding) for binding in bindings]
    print_list(found, _COLUMNS, ([*row.values()] for row in found), none=none, json=json)


_COLUMNS = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"]


def _json(binding: AclBinding) -> dict[str, Any]:
    resource, entry = binding
    return {
        "resource_type": _word(resource.kind.name),
        "resource_name": resource.name,
        "pattern_type": _word(resource.pattern.name),
        "principal": entry.principal,
        "host": entry.host,
        "operation": _word(entry.operation.name),
        "permission": _word(entry.permission.name),
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")
