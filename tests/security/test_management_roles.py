"""The table of the management API: each request × each tag × each virtual host × a denial."""

import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from headrace.management.requests.rows import ROWS
from headrace.management.requests.table import Row
from headrace.operations.tags import Tag
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import acl_rules_of
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.testing import BrokerThread
from tests.support.amqp.management import (
    SETTINGS,
    ApiClient,
    Reply,
    administer,
    basic,
    make_user,
    port_of,
)

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
TAGS = ("", "management", "policymaker", "monitoring", "administrator", "impersonator")
SUFFICIENT = {
    Tag.MANAGEMENT: {"management", "policymaker", "monitoring", "administrator"},
    Tag.POLICYMAKER: {"policymaker", "administrator"},
    Tag.MONITORING: {"monitoring", "administrator"},
    Tag.ADMINISTRATOR: {"administrator"},
}
REASONS = {
    Tag.POLICYMAKER: "User not authorised to access object",
    Tag.MONITORING: "Not monitor user",
    Tag.ADMINISTRATOR: "Not administrator user",
}
VALUES = {"password": "planted-secret-81"}
"""By name of a path's value: that of an object that exists."""
GUARDED = [row for row in ROWS if row.tag is not Tag.ANYONE]


class User(NamedTuple):
    """A user of the table: the tag, and whether a rule denies the cluster's operations."""

    tag: str
    is_denied: bool

    @property
    def credentials(self) -> tuple[str, str]:
        """Name and password."""
        name = f"{'denied' if self.is_denied else 'has'}-{self.tag}"
        return name, name


USERS = [User(tag, is_denied) for tag in TAGS for is_denied in (False, True)]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker with the users of the table."""
    with BrokerThread({**SETTINGS, **ACLS}) as running:
        for user in USERS:
            make_user(running, user.credentials[0], *filter(None, [user.tag]))
        entries = [
            AclEntry(f"User:{user.credentials[0]}", "*", Operation.ALL, Permission.DENY)
            for user in USERS
            if user.is_denied
        ]

        def deny(server: Any) -> None:
            rules = acl_rules_of(server.broker.authorizer)
            assert rules is not None
            rules.put(CLUSTER, entries)

        running.call(deny)
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


def path_of(row: Row, values: Mapping[str, str]) -> str:
    """Return a path of a row."""
    path = "/api" + row.pattern
    for name, value in values.items():
        path = path.replace("{" + name + "}", value)
    return path


def refusal(row: Row, user: User) -> str | None:
    """Return the reason why a user may not send a request; None: the user may."""
    if user.tag not in SUFFICIENT[Tag.MANAGEMENT]:
        return "Not management user"
    if user.tag not in SUFFICIENT[row.tag]:
        return REASONS[row.tag]
    return "Access refused." if user.is_denied else None


def reason_of(reply: Reply) -> str | None:
    """Return the reason of a missing right."""
    if reply.status == 401:
        assert reply.value["error"] == "not_authorised"
        return str(reply.value["reason"])
    return None


@pytest.mark.parametrize("row", GUARDED, ids=lambda row: f"{row.method} {row.pattern}")
def test_each_request_requires_its_tag_and_no_denial(row: Row, client: ApiClient) -> None:
    path = path_of(row, VALUES)
    assert client.ask(row.method, path, None).status == 401
    for user in USERS:
        reply = client.ask(row.method, path, user.credentials)
        assert reason_of(reply) == refusal(row, user), user
        assert reply.status < 500


def test_a_tag_that_is_removed_while_the_body_arrives_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Row("POST", "/late", Tag.MONITORING, "headrace.management.objects.whoami:whoami", 9)
    monkeypatch.setattr("headrace.frontends.management.requests.ROWS", (*ROWS, row))
    with BrokerThread(SETTINGS) as broker:
        for tags, status in ([], 401), (["administrator"], 200):
            user = make_user(broker, "late", "monitoring")
            head = f"POST /api/late HTTP/1.1\r\nHost: x\r\nAuthorization: {basic(*user)}\r\n"
            with socket.create_connection(("127.0.0.1", port_of(broker)), 20) as link:
                head += "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
                link.sendall(head.encode())
                assert link.recv(100).startswith(b"HTTP/1.1 100"), "the tag sufficed"
                administer(broker, "user.put", name="late", tags=tags)
                link.sendall(b"{}")
                assert int(link.recv(12)[9:]) == status
