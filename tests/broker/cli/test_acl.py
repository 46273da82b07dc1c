"""`headrace acl` against a broker whose ACLs decide."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerThread(settings) as started:
        yield started


def acl(kind: str, name: str, operation: str, **other: Any) -> dict[str, Any]:
    return {
        "resource_type": kind, "resource_name": name, "pattern_type": "literal",
        "principal": "User:alice", "host": "*", "operation": operation, "permission": "allow",
        **other,
    }  # fmt: skip


def test_acls_are_created_listed_and_deleted(asked: Asked, says: Says) -> None:
    assert says("acl", "list") == (0, "", "no ACLs are there\n")
    alice = ("--allow-principal", "User:alice")
    code, made = asked("acl create", *alice, "--operation", "read", "--topic", "t")
    assert (code, made) == (0, [{**acl("topic", "t", "read"), "error": None}])
    asked(
        "acl create", "--deny-principal", "User:*", "--operation", "DescribeConfigs", "--prefixed",
        "--topic", "p", "--host", "10.0.0.1", "--cluster",
    )  # fmt: skip
    prefixed = acl(
        "topic", "p", "describe-configs", pattern_type="prefixed", principal="User:*",
        host="10.0.0.1", permission="deny",
    )  # fmt: skip
    of_cluster = prefixed | acl("cluster", "kafka-cluster", "describe-configs") | {
        "principal": "User:*", "host": "10.0.0.1", "permission": "deny",
    }  # fmt: skip
    every = asked("acl list")[1]
    assert sorted(map(str, every)) == sorted(
        map(str, [acl("topic", "t", "read"), prefixed, of_cluster])
    )
    assert asked("acl list", "--topic", "pq", "--match")[1] == [prefixed]
    assert asked("acl list", "--topic", "p")[1] == []
    assert asked("acl list", "--principal", "User:alice")[1] == [acl("topic", "t", "read")]
    assert "describe-configs" in says("acl", "list")[1]
    code, answer = asked("acl delete", "--topic", "t")
    assert (code, "pass --yes" in answer["error"]["message"]) == (2, True)
    assert len(asked("acl list")[1]) == 3
    deleted = asked("acl delete", "--topic", "t", *alice, "--operation", "read", "--yes")[1]
    assert deleted == [acl("topic", "t", "read")]
    assert says("acl", "delete", "--topic", "t", "--yes")[2].startswith("no such ACLs are there")
    assert len(asked("acl list")[1]) == 2


def test_roles_stand_for_what_they_need(asked: Asked) -> None:
    words = ("--allow-principal", "User:alice", "--topic", "t", "--group", "g")
    asked("acl create", *words, "--consumer")
    found = {(row["resource_type"], row["operation"]) for row in asked("acl list")[1]}
    assert found == {("topic", "read"), ("topic", "describe"), ("group", "read")}
    asked("acl delete", "--topic", "t", "--group", "g", "--yes")
    words = ("--allow-principal", "User:alice", "--topic", "t", "--transactional-id", "x")
    asked("acl create", *words, "--producer")
    found = {(row["resource_type"], row["operation"]) for row in asked("acl list")[1]}
    assert found == {
        ("topic", "write"), ("topic", "describe"), ("topic", "create"),
        ("transactional-id", "write"), ("transactional-id", "describe"),
    }  # fmt: skip


def test_what_the_broker_refuses_is_told_beside_what_was_created(asked: Asked, says: Says) -> None:
    words = ("--allow-principal", "User:alice", "--group", "a/b", "--group", "g")
    code, (refused, made) = asked("acl create", *words)
    assert (code, made["error"]) == (1, None)
    assert refused["error"]["code"] == "INVALID_REQUEST"
    code, out, err = says("acl", "create", *words)
    assert (code, "a/b" in out, "has a slash" in err) == (1, False, True)


@pytest.mark.parametrize(("words", "said"), [
    ("create --topic t", "say who"),
    ("create --allow-principal User:a", "say of what"),
    ("create --allow-principal alice --topic t", "a principal is User:NAME"),
    ("create --allow-principal User:a --topic t --operation fly", "must be one of all, read"),
    ("create --allow-principal User:a --topic t --consumer", "--consumer needs --group"),
    ("create --allow-principal User:a --group t --producer", "need --topic"),
    ("create --allow-principal User:a --topic t --producer --cluster", "asks anything of cluster"),
    ("create --allow-principal User:a --topic t --producer --operation read", "--operation away"),
    ("delete --yes", "say of what"),
    ("list --topic t --prefixed --match", "without --prefixed"),
])  # fmt: skip
def test_a_slip_is_named_with_its_remedy(words: str, said: str, says: Says) -> None:
    found = says("acl", *words.split())
    assert (found[0], said in found[2], found[2].count("\n")) == (2, True, 1), found
