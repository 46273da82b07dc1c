"""ACLs as rules against a model that looks at every one of them, in whatever order they came."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.security.identity import Identity, Principal
from headrace.security.rules import RuleAuthorizer
from tests.support.examples import examples

NAMES = ("a", "ab", "abc", "b", "ba", "*")
OPERATIONS = (
    Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)  # fmt: skip
KINDS = (ResourceType.TOPIC, ResourceType.GROUP)
HOSTS = ("10.0.0.1", "10.0.0.2")
PEOPLE = ("alice", "bob")
IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

resources = st.builds(
    Resource,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
entries = st.builds(
    AclEntry,
    st.sampled_from(("User:alice", "User:bob", "User:*")),
    st.sampled_from((*HOSTS, "*")),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
bindings = st.builds(AclBinding, resources, entries)
changes = st.lists(st.tuples(st.booleans(), bindings), max_size=30)


def speaks(entry: AclEntry, who: Identity, operations: set[Operation]) -> bool:
    return (
        entry.principal in (str(who.principal), "User:*")
        and entry.host in (who.host, "*")
        and entry.operation in operations | {Operation.ALL}
    )


def model(held: set[AclBinding], who: Identity, operation: Operation, resource: Resource) -> bool:
    of_it = AclFilter(resource.kind, resource.name, PatternType.MATCH)
    found = [one.entry for one in held if of_it.matches(one)]
    denied = any(
        entry.permission is Permission.DENY and speaks(entry, who, {operation}) for entry in found
    )
    implying = {operation} | IMPLYING.get(operation, set())
    allowed = any(
        entry.permission is Permission.ALLOW and speaks(entry, who, implying) for entry in found
    )
    return allowed and not denied


def model_any(
    held: set[AclBinding], who: Identity, operation: Operation, kind: ResourceType
) -> bool:
    """Whether there is an allowed name or prefix that no denial covers as a whole."""
    mine = [
        one for one in held if one.resource.kind is kind and speaks(one.entry, who, {operation})
    ]
    denied = {one.resource for one in mine if one.entry.permission is Permission.DENY}
    if Resource(kind, "*") in denied:
        return False
    prefixes = {one.name for one in denied if one.pattern is PatternType.PREFIXED}
    for binding in mine:
        resource = binding.resource
        if binding.entry.permission is Permission.DENY:
            continue
        if resource == Resource(kind, "*"):
            return True
        if resource.pattern is PatternType.LITERAL and resource in denied:
            continue
        if not any(resource.name.startswith(prefix) for prefix in prefixes):
            return True
    return False


@settings(max_examples=examples(150))
@given(changes)
def test_rules_are_the_set_that_is_left_whatever_came_and_went(
    told: list[tuple[bool, AclBinding]],
) -> None:
    rules = AclRules()
    authorizer = RuleAuthorizer([rules])
    held: set[AclBinding] = set()
    for add, binding in told:
        before, version = set(held), rules.version
        (held.add if add else held.discard)(binding)
        of_it = {one.entry for one in held if one.resource == binding.resource}
        rules.put(binding.resource, of_it)
        assert (rules.version > version) == (held != before)
    again = AclRules()
    again.replace({one.resource: rules.entries(one.resource) for one in sorted(held)})
    assert set(rules.matching(AclFilter())) == held == set(again.matching(AclFilter()))
    fresh = RuleAuthorizer([again])
    for person in PEOPLE:
        for host in HOSTS:
            who = Identity(host, "L", Principal("User", person))
            for kind in KINDS:
                for operation in OPERATIONS[1:]:
                    expected = model_any(held, who, operation, kind)
                    assert authorizer.allows_any(who, operation, kind) is expected
                    for name in ("a", "abx", "b", "c"):
                        resource = Resource(kind, name)
                        expected = model(held, who, operation, resource)
                        assert authorizer.allows(who, operation, resource) is expected
                        assert fresh.allows(who, operation, resource) is expected
    rules.replace({})
    assert rules.matching(AclFilter()) == []
    assert not rules._names
    assert not any(rules._prefix_lengths.values())
