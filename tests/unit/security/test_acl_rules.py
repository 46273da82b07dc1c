"""Kafka's ACLs as rules: what is allowed, what is denied, and who asks next to them."""

import pytest

from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import Authorizer, Operation, PatternType, Resource, ResourceType
from headrace.security.identity import Identity, Principal
from headrace.security.rules import KNOWN_ANSWERS_MAX, Reach, RuleAuthorizer, Ruling

ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
ALICE = Identity("10.0.0.1", "SECURE", Principal("User", "alice"))
BOB = Identity("10.0.0.2", "SECURE", Principal("User", "bob"))


def topic(name: str, pattern: PatternType = PatternType.LITERAL) -> Resource:
    return Resource(TOPIC, name, pattern)


def entry(
    operation: Operation = READ,
    permission: Permission = ALLOW,
    principal: str = "User:alice",
    host: str = "*",
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def rules(*bindings: tuple[Resource, AclEntry]) -> AclRules:
    made = AclRules()
    for resource, one in bindings:
        made.put(resource, {*made.entries(resource), one})
    return made


def decider(*bindings: tuple[Resource, AclEntry], **options: bool) -> RuleAuthorizer:
    return RuleAuthorizer([rules(*bindings)], **options)  # type: ignore[arg-type]


def test_without_a_rule_everybody_is_refused_everything() -> None:
    authorizer: Authorizer = decider()
    assert not authorizer.allows_all
    for kind in (TOPIC, ResourceType.GROUP, ResourceType.CLUSTER):
        for operation in Operation:
            assert not authorizer.allows(ALICE, operation, Resource(kind, "x"))
            assert not authorizer.allows_any(ALICE, operation, kind)


def test_a_super_user_may_do_what_is_denied_to_all() -> None:
    denied = rules((topic("*"), entry(ALL, DENY, "User:*")))
    authorizer = RuleAuthorizer([denied], super_users=[ALICE.principal])
    assert authorizer.allows(ALICE, WRITE, topic("t"))
    assert authorizer.allows_any(ALICE, WRITE, TOPIC)
    assert not authorizer.allows(BOB, WRITE, topic("t"))


@pytest.mark.parametrize(
    "resource",
    [topic("orders"), topic("*"), topic("ord", PREFIXED), topic("orders", PREFIXED)],
    ids=str,
)
def test_a_pattern_is_of_the_names_that_it_names(resource: Resource) -> None:
    authorizer = decider((resource, entry()))
    assert authorizer.allows(ALICE, READ, topic("orders"))
    assert authorizer.allows(ALICE, READ, topic("other")) is (resource.name == "*")
    assert authorizer.allows(ALICE, READ, topic("ord")) is (resource.name in ("*", "ord"))
    assert not authorizer.allows(BOB, READ, topic("orders"))
    assert not authorizer.allows(ALICE, READ, Resource(ResourceType.GROUP, "orders"))


def test_a_literal_name_is_no_prefix_and_a_star_by_prefix_is_a_letter() -> None:
    authorizer = decider((topic("a"), entry()), (topic("*", PREFIXED), entry()))
    assert not authorizer.allows(ALICE, READ, topic("ab"))
    assert not authorizer.allows(ALICE, READ, topic("b"))


@pytest.mark.parametrize("denying", [topic("orders"), topic("*"), topic("o", PREFIXED)], ids=str)
@pytest.mark.parametrize("allowing", [topic("orders"), topic("*"), topic("ord", PREFIXED)], ids=str)
def test_a_denial_wins_whatever_pattern_it_has(denying: Resource, allowing: Resource) -> None:
    authorizer = decider((allowing, entry()), (denying, entry(READ, DENY, "User:*")))
    assert not authorizer.allows(ALICE, READ, topic("orders"))


@pytest.mark.parametrize("permission", [ALLOW, DENY])
@pytest.mark.parametrize(
    ("said", "implied"),
    [(READ, DESCRIBE), (WRITE, DESCRIBE), (Operation.DELETE, DESCRIBE), (Operation.ALTER, DESCRIBE),
     (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)],
)  # fmt: skip
def test_what_is_allowed_implies_its_description_and_a_denial_implies_nothing(
    said: Operation, implied: Operation, permission: Permission
) -> None:
    everything = (topic("t"), entry(ALL))
    of_one = (topic("t"), entry(said, permission))
    if permission is ALLOW:
        authorizer = decider(of_one)
        assert authorizer.allows(ALICE, implied, topic("t"))
        assert not authorizer.allows(ALICE, Operation.CREATE, topic("t"))
    else:
        authorizer = decider(everything, of_one)
        assert authorizer.allows(ALICE, implied, topic("t"))
        assert not authorizer.allows(ALICE, said, topic("t"))


@pytest.mark.parametrize("operation", [one for one in Operation if one > ALL], ids=str)
def test_all_stands_for_each_operation_allowed_and_denied(operation: Operation) -> None:
    assert decider((topic("t"), entry(ALL))).allows(ALICE, operation, topic("t"))
    both = decider((topic("t"), entry(operation)), (topic("t"), entry(ALL, DENY)))
    assert not both.allows(ALICE, operation, topic("t"))


@pytest.mark.parametrize(
    ("host", "peer", "same"),
    [
        ("*", "10.0.0.1", True), ("10.0.0.1", "10.0.0.1", True), ("10.0.0.1", "10.0.0.10", False),
        ("0:0:0:0:0:0:0:1", "::1", True), ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::1", "127.0.0.1", False), ("localhost", "127.0.0.1", False),
    ],
)  # fmt: skip
def test_a_rule_holds_for_its_host_however_the_address_is_written(
    host: str, peer: str, same: bool
) -> None:
    authorizer = decider((topic("t"), entry(host=host)))
    who = ALICE._replace(host=peer)
    assert authorizer.allows(who, READ, topic("t")) is same
    assert authorizer.allows_any(who, READ, TOPIC) is same


def test_the_kind_of_a_principal_counts_and_a_star_is_for_every_kind() -> None:
    token = ALICE._replace(principal=Principal("Token", "alice"))
    assert not decider((topic("t"), entry())).allows(token, READ, topic("t"))
    assert decider((topic("t"), entry(principal="User:*"))).allows(token, READ, topic("t"))
    assert not decider((topic("t"), entry(principal="User:al*"))).allows(ALICE, READ, topic("t"))


def test_what_no_acl_is_of_may_be_open_and_is_closed_by_any_acl_of_it() -> None:
    someone = entry(principal="User:carol")
    authorizer = decider((topic("t"), someone), (topic("p", PREFIXED), someone), allow_unruled=True)
    assert authorizer.allows(ALICE, READ, topic("x"))
    assert authorizer.allows_any(ALICE, READ, TOPIC)
    assert not authorizer.allows(ALICE, READ, topic("t"))
    assert not authorizer.allows(ALICE, READ, topic("pq"))
    wild = decider((topic("*"), entry(WRITE, DENY)), allow_unruled=True)
    assert not wild.allows_any(ALICE, WRITE, TOPIC)
    assert not wild.allows(ALICE, READ, topic("x"))


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([(topic("a"), ALLOW)], True),
        ([(topic("*"), ALLOW)], True),
        ([(topic("a", PREFIXED), ALLOW)], True),
        ([(topic("a"), ALLOW), (topic("a"), DENY)], False),
        ([(topic("a"), ALLOW), (topic("b"), DENY)], True),
        ([(topic("ab"), ALLOW), (topic("a", PREFIXED), DENY)], False),
        ([(topic("a", PREFIXED), ALLOW), (topic("ab", PREFIXED), DENY)], True),
        ([(topic("ab", PREFIXED), ALLOW), (topic("a", PREFIXED), DENY)], False),
        ([(topic("a", PREFIXED), ALLOW), (topic("a"), DENY)], True),
        ([(topic("a", PREFIXED), ALLOW), (topic("*"), DENY)], False),
        ([(topic("*"), ALLOW), (topic("*"), DENY)], False),
        ([(topic("*"), ALLOW), (topic("a", PREFIXED), DENY)], True),
        ([(topic("a"), DENY)], False),
    ],
)
def test_any_resource_is_one_that_no_denial_dominates(
    bindings: list[tuple[Resource, Permission]], expected: bool
) -> None:
    authorizer = decider(*((resource, entry(WRITE, what)) for resource, what in bindings))
    assert authorizer.allows_any(ALICE, WRITE, TOPIC) is expected
    assert not authorizer.allows_any(ALICE, WRITE, ResourceType.GROUP)
    assert not authorizer.allows_any(BOB, WRITE, TOPIC)


class Vhosts:
    """The permissions of a door that is not Kafka's: by the identity's tags."""

    def __init__(self) -> None:
        self.version = 0
        self.allowed: set[str] = set()
        self.denied: set[str] = set()

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        if identity.tags & self.denied:
            return Ruling.DENIED
        return Ruling.ALLOWED if identity.tags & self.allowed else Ruling.SILENT

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        everything = [frozenset({"*"})]
        allowed = everything if identity.tags & self.allowed else []
        denied = everything if identity.tags & self.denied else []
        return Reach(allowed, [], denied, [])


def test_a_denial_by_one_source_wins_over_what_another_allows() -> None:
    acls, vhosts = rules((topic("t"), entry())), Vhosts()
    authorizer = RuleAuthorizer([acls, vhosts])
    guest = ALICE._replace(tags=frozenset({"guest"}))
    assert authorizer.allows(guest, READ, topic("t"))
    vhosts.denied.add("guest")
    vhosts.version += 1
    assert not authorizer.allows(guest, READ, topic("t"))
    assert not authorizer.allows_any(guest, READ, TOPIC)
    assert authorizer.allows(ALICE, READ, topic("t")), "another, of the same name"
    admin = BOB._replace(tags=frozenset({"admin"}))
    vhosts.allowed.add("admin")
    vhosts.version += 1
    assert authorizer.allows(admin, WRITE, topic("t"))
    assert authorizer.allows_any(admin, WRITE, TOPIC)
    acls.put(topic("t", PREFIXED), [entry(WRITE, DENY, "User:bob")])
    assert not authorizer.allows(admin, WRITE, topic("t"))


def test_an_answer_is_another_as_soon_as_a_rule_is_and_the_version_says_so() -> None:
    acls = rules()
    authorizer = RuleAuthorizer([acls])
    versions = [authorizer.version]
    for entries, expected in (([entry()], True), ([entry(WRITE)], False), ([], False)):
        acls.put(topic("t"), entries)
        versions.append(authorizer.version)
        assert authorizer.allows(ALICE, READ, topic("t")) is expected
    assert versions == sorted(set(versions))
    acls.put(topic("t"), [])
    assert authorizer.version == versions[-1], "nothing changed"


def test_entries_that_a_replacement_keeps_still_count_for_any_resource() -> None:
    acls = rules((topic("t"), entry(READ)), (topic("t"), entry(WRITE)))
    authorizer = RuleAuthorizer([acls])
    assert authorizer.allows_any(ALICE, READ, TOPIC)
    acls.put(topic("t"), [entry(WRITE)])
    assert authorizer.allows_any(ALICE, WRITE, TOPIC)
    assert not authorizer.allows_any(ALICE, READ, TOPIC)
    acls.put(topic("t"), [])
    assert not authorizer.allows_any(ALICE, WRITE, TOPIC)
    assert not acls._names


def test_a_resource_keeps_the_names_that_other_resources_lose() -> None:
    acls = rules((topic("t"), entry()), (topic("u"), entry()))
    acls.put(topic("t"), [])
    assert RuleAuthorizer([acls]).allows_any(ALICE, READ, TOPIC)


def test_prefixes_are_looked_up_while_a_pattern_of_their_length_has_entries() -> None:
    acls = rules((topic("ab", PREFIXED), entry()), (topic("ab", PREFIXED), entry(WRITE)))
    acls.put(topic("cd", PREFIXED), [entry()])
    acls.put(topic("literal"), [entry()])
    acls.put(topic("cd", PREFIXED), [])
    assert RuleAuthorizer([acls]).allows(ALICE, READ, topic("abc"))
    assert list(acls._prefix_lengths[TOPIC]) == [2]
    acls.put(topic("ab", PREFIXED), [])
    assert not acls._prefix_lengths[TOPIC]


def test_a_full_replacement_removes_resources_that_are_not_named() -> None:
    acls = rules((topic("t"), entry()), (topic("u"), entry()), (topic("p", PREFIXED), entry()))
    version = acls.version
    acls.replace({topic("t"): [entry()], topic("p", PREFIXED): [], topic("v"): [entry(WRITE)]})
    assert [str(bound.resource.name) for bound in acls.matching(AclFilter())] == ["t", "v"]
    assert acls.version == version + 3, "t is as before"
    assert not RuleAuthorizer([acls]).allows(ALICE, READ, topic("u"))


def test_known_answers_are_bounded() -> None:
    authorizer = decider((topic("t"), entry()))
    for number in range(KNOWN_ANSWERS_MAX + 10):
        authorizer.allows(ALICE, READ, topic(f"t{number}"))
    assert len(authorizer._known) <= KNOWN_ANSWERS_MAX
    assert authorizer.allows(ALICE, READ, topic("t"))


def test_a_question_looks_at_no_rule_of_another_resource() -> None:
    acls = rules()
    for number in range(10_000):
        pattern = PREFIXED if number % 2 else PatternType.LITERAL
        acls.put(topic(f"topic-{number:05}", pattern), [entry(principal=f"User:{number}")])
    assert len(acls._of(TOPIC, "topic-00003")) == 1
    assert len(acls._prefix_lengths[TOPIC]) == 1
    assert RuleAuthorizer([acls]).allows_any(ALICE, READ, TOPIC) is False


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {"a", "a+", "*", "b"}),
        (AclFilter(TOPIC, "a", PatternType.LITERAL), {"a"}),
        (AclFilter(TOPIC, "a", PREFIXED), {"a+"}),
        (AclFilter(TOPIC, "a"), {"a", "a+"}),
        (AclFilter(TOPIC, "a", PatternType.MATCH), {"a", "a+", "*"}),
        (AclFilter(TOPIC, "ab", PatternType.MATCH), {"a+", "*"}),
        (AclFilter(TOPIC, None, PREFIXED), {"a+"}),
        (AclFilter(TOPIC, None, PatternType.MATCH), {"a", "a+", "*", "b"}),
        (AclFilter(ResourceType.GROUP), set()),
        (AclFilter(principal="User:bob"), {"b"}),
        (AclFilter(host="10.0.0.9"), {"b"}),
        (AclFilter(operation=WRITE), {"b"}),
        (AclFilter(operation=READ, permission=DENY), {"*"}),
        (AclFilter(permission=ALLOW), {"a", "a+", "b"}),
        (AclFilter(principal="User:nobody"), set()),
    ],
)
def test_a_filter_finds_what_kafkas_finds(wanted: AclFilter, found: set[str]) -> None:
    acls = rules(
        (topic("a"), entry()),
        (topic("a", PREFIXED), entry()),
        (topic("*"), entry(READ, DENY)),
        (topic("b"), entry(WRITE, principal="User:bob", host="10.0.0.9")),
    )
    bindings = acls.matching(wanted)
    marks = {PREFIXED: "+", PatternType.LITERAL: ""}
    assert {one.resource.name + marks[one.resource.pattern] for one in bindings} == found
    assert all(wanted.matches(one) for one in bindings)


def test_a_binding_reads_as_a_sentence() -> None:
    bound = AclBinding(topic("t", PREFIXED), entry(host="10.0.0.1"))
    assert str(bound) == "ALLOW User:alice from 10.0.0.1 READ on PREFIXED TOPIC:t"


def test_a_rule_for_all_topics_allows_none_that_a_protocol_reserves() -> None:
    everything = decider((topic("*"), entry()), (topic("", PREFIXED), entry()))
    assert everything.allows(ALICE, READ, topic("orders"))
    assert not everything.allows(ALICE, READ, topic("__amqp.queue.orders"))
    named = decider((topic("__amqp.queue.", PREFIXED), entry()))
    assert named.allows(ALICE, READ, topic("__amqp.queue.orders"))
    denied = decider((topic("__amqp.", PREFIXED), entry()), (topic("*"), entry(permission=DENY)))
    assert not denied.allows(ALICE, READ, topic("__amqp.queue.orders"))
