"""Which authorizer a configuration asks for."""

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.config.keys.authorization import AUTHORIZERS
from headrace.config.listeners import Listener
from headrace.model.errors import ConfigError
from headrace.security.acl_rules import acl_rules_of
from headrace.security.authorizer import AllowsAll, Operation, Resource, ResourceType
from headrace.security.configured import default_authorizer
from headrace.security.identity import Identity, Principal
from headrace.security.rules import RuleAuthorizer

TOPIC = Resource(ResourceType.TOPIC, "t")
ALICE = Principal("User", "alice")


def config(properties: str = "", *listeners: Listener) -> BrokerConfig:
    """A configuration, with listeners that a configuration may not name yet."""
    made, warnings = load(properties)
    assert warnings == []
    if listeners:
        made.listeners = listeners
    return made


def listener(name: str, host: str, protocol: str) -> Listener:
    return Listener(name, host, 9092, protocol)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_plain_text_on_the_loopback_is_open(host: str) -> None:
    authorizer = default_authorizer(config("", listener("A", host, "PLAINTEXT")))
    assert isinstance(authorizer, AllowsAll)
    assert acl_rules_of(authorizer) is None


@pytest.mark.parametrize(
    ("host", "protocol"),
    [("127.0.0.1", "SASL_PLAINTEXT"), ("127.0.0.1", "SSL"), ("10.0.0.1", "SASL_SSL"),
     ("10.0.0.1", "PLAINTEXT"), ("", "PLAINTEXT"), ("broker.example", "PLAINTEXT")],
)  # fmt: skip
def test_through_any_other_listener_only_super_users_may_do_anything(
    host: str, protocol: str
) -> None:
    both = (listener("OPEN", "127.0.0.1", "PLAINTEXT"), listener("OTHER", host, protocol))
    authorizer = default_authorizer(config("super.users=User:alice", *both))
    for name, principal, allowed in (
        ("OPEN", Principal("User", "bob"), True), ("OTHER", Principal("User", "bob"), False),
        ("OTHER", ALICE, True), ("NEITHER", Principal("User", "bob"), False),
    ):  # fmt: skip
        who = Identity("127.0.0.1", name, principal)
        assert authorizer.allows(who, Operation.WRITE, TOPIC) is allowed
        assert authorizer.allows_any(who, Operation.WRITE, ResourceType.TOPIC) is allowed
    assert not authorizer.allows_all
    assert acl_rules_of(authorizer) is None


def test_leave_to_be_open_to_other_machines_is_for_plain_text_alone() -> None:
    leave = "insecure.listeners=true"
    assert default_authorizer(config(leave, listener("A", "", "PLAINTEXT"))).allows_all
    assert not default_authorizer(config(leave, listener("A", "", "SSL"))).allows_all


@pytest.mark.parametrize("name", AUTHORIZERS)
def test_either_name_of_kafkas_has_acls_decide_on_the_loopback_too(name: str) -> None:
    authorizer = default_authorizer(
        config(f"authorizer.class.name={name}\nsuper.users= User:alice ; User:CN=x,O=y;")
    )
    assert isinstance(authorizer, RuleAuthorizer)
    assert acl_rules_of(authorizer) is not None
    here = Identity("127.0.0.1", "PLAINTEXT")
    assert not authorizer.allows(here, Operation.READ, TOPIC)
    assert authorizer.allows(here._replace(principal=ALICE), Operation.READ, TOPIC)
    named = here._replace(principal=Principal("User", "CN=x,O=y"))
    assert authorizer.allows(named, Operation.READ, TOPIC)


def test_what_no_acl_is_of_is_open_where_that_is_asked_for() -> None:
    wanted = f"authorizer.class.name={AUTHORIZERS[0]}\nallow.everyone.if.no.acl.found=true"
    nobody = Identity("10.0.0.1", "PLAINTEXT")
    assert default_authorizer(config(wanted)).allows(nobody, Operation.READ, TOPIC)


@pytest.mark.parametrize("name", ["os.system", "my.Authorizer", f"{AUTHORIZERS[0]}x", "headrace"])
def test_no_other_class_is_taken_or_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name=.*AclAuthorizer or"):
        load(f"authorizer.class.name={name}")


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:a;bob"])
def test_super_users_are_principals(text: str) -> None:
    with pytest.raises(ConfigError, match=r"super\.users"):
        load(f"super.users={text}")
