"""Vhost x operation x permission: what the broker's authorizer says of queues and exchanges."""

from itertools import product

import pytest

from headrace.queues.permissions.access import Grant, Permission
from headrace.queues.permissions.definitions import Definitions, UserDefinition, VhostDefinition
from headrace.queues.permissions.permission_rules import OPERATIONS, resource_of, vhost_resource
from headrace.queues.queue_names import queue_topic
from headrace.security.acl import AclEntry
from headrace.security.acl import Permission as AclPermission
from headrace.security.acl_rules import AclRules
from headrace.security.audit import Audit
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.security.identity import USER, Principal
from headrace.security.rules import RuleAuthorizer
from headrace.vhosts.access import Admission
from tests.support.amqp.access import identity_of
from tests.support.coordination.groups_kit import HandClock

GRANTS = {
    ("alice", "/"): Grant("^own$", "^(own|out)$", "^(own|in)$"),
    ("alice", "shop"): Grant("", "", "in$"),
    ("bob", "/"): Grant(".*", "", ""),
}
ALLOWED = {
    ("alice", "/", "own", Permission.CONFIGURE),
    ("alice", "/", "own", Permission.WRITE),
    ("alice", "/", "out", Permission.WRITE),
    ("alice", "/", "own", Permission.READ),
    ("alice", "/", "in", Permission.READ),
    ("alice", "shop", "in", Permission.READ),
    ("bob", "/", "own", Permission.CONFIGURE),
    ("bob", "/", "out", Permission.CONFIGURE),
    ("bob", "/", "in", Permission.CONFIGURE),
}
"""All that is, of users, vhosts, names and permissions below."""
USERS, VHOSTS, NAMES = ("alice", "bob", "carol"), ("/", "shop", "none"), ("own", "out", "in")


def authorizer_of(
    *, acls: AclRules | None = None, allow_unruled: bool = False
) -> tuple[RuleAuthorizer, Definitions]:
    """Return an authorizer by `GRANTS`, where `root` is a super user."""
    definitions = Definitions()
    definitions.put_vhost("shop", VhostDefinition())
    for user in USERS:
        grants = {vhost: grant for (name, vhost), grant in GRANTS.items() if name == user}
        definitions.put_user(user, UserDefinition(grants=grants))
    authorizer = RuleAuthorizer(
        [] if acls is None else [acls],
        super_users=[Principal(USER, "root")],
        allow_unruled=allow_unruled,
    )
    Admission(definitions, authorizer, Audit(HandClock()))
    return authorizer, definitions


@pytest.mark.parametrize("allow_unruled", [False, True])
@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_the_table_of_permissions_is_what_is_allowed_and_nothing_else(
    kind: str, allow_unruled: bool
) -> None:
    authorizer, _ = authorizer_of(allow_unruled=allow_unruled)
    for user, vhost, name, permission in product(USERS, VHOSTS, NAMES, Permission):
        allowed = authorizer.allows(
            identity_of(user), OPERATIONS[permission], resource_of(kind, vhost, name)
        )
        assert allowed is ((user, vhost, name, permission) in ALLOWED), (user, vhost, name)


def test_super_users_may_do_everything_in_every_vhost() -> None:
    authorizer, _ = authorizer_of()
    for vhost, permission in product(VHOSTS, Permission):
        resource = resource_of("queue", vhost, "any")
        assert authorizer.allows(identity_of("root"), OPERATIONS[permission], resource)
        assert authorizer.allows(identity_of("root"), Operation.DESCRIBE, vhost_resource(vhost))


def test_who_has_permissions_in_a_vhost_may_open_it_be_they_empty() -> None:
    authorizer, definitions = authorizer_of()

    def may_open(user: str, vhost: str) -> bool:
        return authorizer.allows(identity_of(user), Operation.DESCRIBE, vhost_resource(vhost))

    opened = {(user, vhost) for user in USERS for vhost in VHOSTS if may_open(user, vhost)}
    assert opened == GRANTS.keys()
    definitions.put_user("carol", UserDefinition(grants={"/": Grant("", "", "")}))
    assert may_open("carol", "/")


def test_the_default_exchange_is_named_amq_default() -> None:
    authorizer, definitions = authorizer_of()
    definitions.put_user("carol", UserDefinition(grants={"/": Grant("", "^amq.default$", "")}))
    default = resource_of("exchange", "/", "")
    assert authorizer.allows(identity_of("carol"), Operation.WRITE, default)
    assert not authorizer.allows(identity_of("alice"), Operation.WRITE, default)


def test_a_name_with_a_line_end_is_of_no_other_vhost() -> None:
    authorizer, definitions = authorizer_of()
    definitions.put_user("carol", UserDefinition(grants={"shop": Grant("", "", ".*")}))
    # In `/`, whatever the name looks like.
    odd = resource_of("queue", "/", "x\nshop\nq")
    assert not authorizer.allows(identity_of("carol"), Operation.READ, odd)


def test_what_kafkas_acls_deny_of_a_queues_topic_is_denied_of_the_queue() -> None:
    acls = AclRules()
    authorizer, _ = authorizer_of(acls=acls)
    alice = identity_of("alice")
    queue = resource_of("queue", "/", "in")
    assert authorizer.allows(alice, Operation.READ, queue)
    topic = Resource(ResourceType.TOPIC, queue_topic("/", "in"), PatternType.LITERAL)
    denial = AclEntry("User:alice", "*", Operation.READ, AclPermission.DENY)
    acls.put(topic, [denial])
    assert not authorizer.allows(alice, Operation.READ, queue)
    assert authorizer.allows(alice, Operation.READ, resource_of("queue", "/", "own"))
    acls.put(topic, [])
    assert authorizer.allows(alice, Operation.READ, queue)


OF_QUEUES = [Operation.READ, Operation.WRITE, Operation.ALTER]


@pytest.mark.parametrize("denied", OF_QUEUES)
@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_denial_of_an_operation_on_the_topic_is_of_that_on_the_queue(
    denied: Operation, kind: str
) -> None:
    acls = AclRules()
    authorizer, definitions = authorizer_of(acls=acls)
    definitions.put_user("carol", UserDefinition(grants={"/": Grant(".*", ".*", ".*")}))
    topic = Resource(ResourceType.TOPIC, queue_topic("/", "in"), PatternType.LITERAL)
    acls.put(topic, [AclEntry("User:carol", "*", denied, AclPermission.DENY)])
    carol, resource = identity_of("carol"), resource_of(kind, "/", "in")
    allowed = [each for each in OF_QUEUES if authorizer.allows(carol, each, resource)]
    kept = OF_QUEUES if kind == "exchange" else [each for each in OF_QUEUES if each != denied]
    assert allowed == kept
    assert authorizer.allows(carol, denied, resource_of(kind, "/", "other"))


def test_who_may_read_a_queue_may_read_its_topic_and_no_other() -> None:
    authorizer, _ = authorizer_of(acls=AclRules())

    def may(user: str, operation: Operation, name: str, vhost: str = "/") -> bool:
        topic = Resource(ResourceType.TOPIC, queue_topic(vhost, name))
        return authorizer.allows(identity_of(user), operation, topic)

    assert may("alice", Operation.READ, "in")
    assert may("alice", Operation.DESCRIBE, "in")
    assert may("alice", Operation.WRITE, "out")
    assert not may("alice", Operation.WRITE, "in")
    assert may("alice", Operation.DELETE, "own"), "that is queue.delete"
    assert not may("alice", Operation.DELETE, "in")
    assert not may("alice", Operation.ALTER_CONFIGS, "own")
    assert not may("bob", Operation.READ, "in")
    assert not may("alice", Operation.READ, "in", "none")
    orders = Resource(ResourceType.TOPIC, "orders")
    assert not authorizer.allows(identity_of("alice"), Operation.READ, orders)


def test_a_queues_topic_is_no_topic_without_rules() -> None:
    authorizer, _ = authorizer_of(acls=AclRules(), allow_unruled=True)
    orders = Resource(ResourceType.TOPIC, "orders")
    assert authorizer.allows(identity_of("carol"), Operation.READ, orders)
    # One of a queue, of a vhost that is not there, of a hash that names none.
    for vhost, name in (("/", "in"), ("none", "in"), ("/", "long" * 99)):
        topic = Resource(ResourceType.TOPIC, queue_topic(vhost, name))
        for operation in (Operation.READ, Operation.DELETE, Operation.ALTER_CONFIGS):
            assert not authorizer.allows(identity_of("carol"), operation, topic)


def test_an_acl_allows_a_queues_topic_only_where_it_names_the_reserved_prefix() -> None:
    acls = AclRules()
    authorizer, _ = authorizer_of(acls=acls)
    carol = identity_of("carol")
    topic = Resource(ResourceType.TOPIC, queue_topic("/", "in"))
    allowed = AclEntry("User:carol", "*", Operation.READ, AclPermission.ALLOW)
    for pattern in (
        Resource(ResourceType.TOPIC, "*"),
        Resource(ResourceType.TOPIC, "_", PatternType.PREFIXED),
        Resource(ResourceType.TOPIC, "__amqp", PatternType.PREFIXED),
    ):
        acls.put(pattern, [allowed])
        assert not authorizer.allows(carol, Operation.READ, topic), pattern
    assert authorizer.allows(carol, Operation.READ, Resource(ResourceType.TOPIC, "_other"))
    named = Resource(ResourceType.TOPIC, "__amqp.queue.", PatternType.PREFIXED)
    acls.put(named, [allowed])
    assert authorizer.allows(carol, Operation.READ, topic)
    everything = Resource(ResourceType.TOPIC, "*")
    acls.put(everything, [allowed._replace(permission=AclPermission.DENY)])
    assert not authorizer.allows(carol, Operation.READ, topic)
