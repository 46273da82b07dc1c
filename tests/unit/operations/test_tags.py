"""Operations by the management API: the tag that each requires, and rules that deny it."""

import asyncio
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations import queues, virtual_hosts
from headrace.operations.arguments import Arguments
from headrace.operations.permissions import (
    PERMISSIONS,
    AdminOperation,
    Caller,
    Surface,
    permitted,
)
from headrace.operations.registry import Operations
from headrace.operations.tags import Tag
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import (
    CLUSTER_NAME,
    AllowsAll,
    Authorizer,
    Operation,
    Resource,
    ResourceType,
)
from headrace.security.identity import USER, Identity, Principal
from headrace.security.rules import RuleAuthorizer

CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
HOLDERS = {
    Tag.ANYONE: {"", "management", "policymaker", "monitoring", "administrator", "impersonator"},
    Tag.MANAGEMENT: {"management", "policymaker", "monitoring", "administrator"},
    Tag.POLICYMAKER: {"policymaker", "administrator"},
    Tag.MONITORING: {"monitoring", "administrator"},
    Tag.ADMINISTRATOR: {"administrator"},
}
"""By required tag: the tags that suffice, "" for a user without any."""
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def stage(authorizer: Authorizer | None = None) -> Any:
    """Return a broker without rules; `audited` has its refusals."""
    audited: list[Any] = []
    audit = SimpleNamespace(
        refused=lambda *refusal: audited.append(refusal), changed=lambda *_, **__: None
    )
    return SimpleNamespace(
        authorizer=authorizer or RuleAuthorizer([AclRules()]), audit=audit, audited=audited
    )


def caller(*tags: str, surface: Surface = Surface.MANAGEMENT) -> Caller:
    """Return a user of the management API with these tags."""
    identity = Identity("10.0.0.1", "MANAGEMENT", Principal(USER, "ann"))
    return Caller(identity, surface, "GET /", lambda: tags)


@dataclass(frozen=True)
class Look(Arguments[str]):
    """An operation of a test; its result is the name of the caller."""

    OPERATION = "look"
    MUTATES = False


def registry(broker: Any, tag: Tag, *, mutates: bool, json: bool = True) -> tuple[Operations, Any]:
    """Return operations with one, and its argument class."""

    @dataclass(frozen=True)
    class Made(Look):
        MUTATES: ClassVar[bool] = mutates
        TAG: ClassVar[Tag] = tag
        RETURNS_JSON: ClassVar[bool] = json

    async def look(who: Caller, asked: Arguments[str]) -> str:
        return who.identity.principal.name

    made = Operations(broker)
    made.add({Made: look})
    return made, Made


def outcome(broker: Any, who: Caller, tag: Tag, *, mutates: bool) -> ErrorCode:
    """Return the error of a call, NONE if the operation was carried out for this caller."""
    made, kind = registry(broker, tag, mutates=mutates)
    try:
        assert asyncio.run(made.call(who, kind())) == "ann"
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("mutates", [False, True])
@pytest.mark.parametrize(("required", "tag"), [*product(Tag, sorted(HOLDERS[Tag.ANYONE]))])
def test_an_operation_requires_its_tag_and_no_permission(
    required: Tag, tag: str, mutates: bool
) -> None:
    for authorizer in (RuleAuthorizer([AclRules()]), AllowsAll()):
        broker = stage(authorizer)
        found = outcome(broker, caller(*filter(None, [tag])), required, mutates=mutates)
        assert found == (ErrorCode.NONE if tag in HOLDERS[required] else REFUSED)
        assert len(broker.audited) == (found is REFUSED)


@pytest.mark.parametrize("mutates", [False, True])
def test_tags_are_no_rights_by_other_protocols(mutates: bool) -> None:
    for surface in set(Surface) - {Surface.MANAGEMENT}:
        who = caller("administrator", surface=surface)
        assert outcome(stage(), who, Tag.MANAGEMENT, mutates=mutates) is REFUSED


def test_a_rule_that_denies_has_precedence_over_the_tag() -> None:
    rules = AclRules()
    entry = AclEntry("User:ann", "*", Operation.ALTER, Permission.DENY)
    rules.put(CLUSTER, [entry])
    broker, ann = stage(RuleAuthorizer([rules])), caller("administrator")
    assert outcome(broker, ann, Tag.ADMINISTRATOR, mutates=True) is REFUSED
    assert outcome(broker, ann, Tag.ADMINISTRATOR, mutates=False) is ErrorCode.NONE
    broker.authorizer = RuleAuthorizer([rules], super_users=[Principal(USER, "ann")])
    assert outcome(broker, ann, Tag.ADMINISTRATOR, mutates=True) is ErrorCode.NONE


def test_a_tag_that_is_removed_counts_for_the_next_call() -> None:
    tags = ["administrator"]
    who = caller()._replace(tags=lambda: tags)
    broker = stage()
    assert outcome(broker, who, Tag.MONITORING, mutates=False) is ErrorCode.NONE
    tags.clear()
    assert outcome(broker, who, Tag.MONITORING, mutates=False) is REFUSED


@pytest.mark.parametrize("operation", AdminOperation)
def test_other_operations_are_allowed_by_the_tag_of_their_row(operation: AdminOperation) -> None:
    row = PERMISSIONS[operation]
    for tag in sorted(HOLDERS[Tag.ANYONE]):
        may = permitted(stage(), caller(tag), operation)
        assert may == (row.tag is not None and tag in HOLDERS[row.tag])


def test_each_operation_has_the_tag_of_its_users() -> None:
    kinds = [
        kind
        for module in (queues, virtual_hosts)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Arguments) and kind is not Arguments
    ]
    changes = {"declare", "delete", "purge", "create"}
    of_users = {
        f"{noun}.{verb}" for noun, verb in product(("queue", "exchange", "binding"), changes)
    }
    of_policymakers = {
        f"{noun}.{verb}" for noun, verb in product(("global-parameter", "policy"), ("set", "clear"))
    }
    expected = dict.fromkeys(of_users, Tag.MANAGEMENT)
    expected |= dict.fromkeys(of_policymakers, Tag.POLICYMAKER)
    for kind in kinds:
        assert kind.TAG is expected.get(kind.OPERATION, Tag.ADMINISTRATOR), kind.OPERATION


def test_a_result_that_is_no_json_is_for_typed_calls_alone() -> None:
    made, kind = registry(stage(AllowsAll()), Tag.ANYONE, mutates=False, json=False)
    who = caller(surface=Surface.KAFKA)
    assert asyncio.run(made.call(who, kind())) == "ann"
    with pytest.raises(ApiError, match="no operation 'look' is known here"):
        asyncio.run(made.call_json(who, "look", {}))
