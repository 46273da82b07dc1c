"""The table of the management API: each request × each tag × each virtual host × a denial."""

import json
import re
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from headrace.management.requests.rows import ROWS
from headrace.management.requests.table import Row
from headrace.operations.tags import Tag
from headrace.queues.model.declarations import ExchangeFlags, QueueFlags
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.policies.policy import checked_policy
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import acl_rules_of
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.testing import BrokerThread
from headrace.vhosts.policies.commands import PolicyChange, change_policies
from tests.support.amqp.management import (
    SETTINGS,
    ApiClient,
    administer,
    basic,
    make_user,
    make_vhost,
    port_of,
)
from tests.support.queues.policies import policy_value

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
VALUES = {"password": "planted-secret-81", "properties": "k", "source": "x"}
"""By name of a path's value: that of an object that exists."""
NAMES = {
    "queues": "q", "exchanges": "x", "q": "q", "e": "y", "policies": "p", "operator-policies": "p",
}  # fmt: skip
"""By the part of the pattern before `{name}`: the name of an object that exists."""
POLICY = policy_value("^never")
BODIES = {
    "actions": b'{"action":"x"}',
    "bindings": b'{"routing_key":"k"}',
    "policies": json.dumps(POLICY).encode(),
    "operator-policies": json.dumps(POLICY).encode(),
}
"""By a part of the pattern: a body that is accepted, otherwise an empty object."""
PLACES = ("own", "other", "none")
"""Virtual hosts: in one the users have all permissions, in the next none, the last is missing."""
ACCOUNTS = ("/vhost", "/user", "/permissions", "/topic-permissions", "/global-parameters")
"""How patterns begin of requests about virtual hosts, users and their rights."""
_ALL_GUARDED = [row for row in ROWS if row.tag is not Tag.ANYONE]
GUARDED = [row for row in _ALL_GUARDED if not row.pattern.startswith(ACCOUNTS)]
OF_ACCOUNTS = [row for row in _ALL_GUARDED if row.pattern.startswith(ACCOUNTS)]


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
        make_vhost(running, "own", *(user.credentials[0] for user in USERS))
        make_vhost(running, "other")
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


def furnish(server: Any) -> None:
    """Make the objects of both virtual hosts that are missing."""
    for vhost in ("own", "other"):
        host = server.frontends._others[0].broker.virtual_hosts.hosts[vhost]
        host.declare_queue("q", QueueFlags(), {}, None)
        for name in ("x", "y"):
            host.model.declare_exchange(name, "direct", ExchangeFlags(), {})
        for destination in (Destination("queue", "q"), Destination("exchange", "y")):
            host.model.bind(Binding("x", destination, "k", {}), None)
        policies = [PolicyId("p", operators) for operators in (False, True)]
        checked = checked_policy("p", POLICY)
        change_policies(host.model, [PolicyChange(each, checked) for each in policies], 0)


def objects(server: Any) -> list[object]:
    """Return all objects of both virtual hosts."""
    hosts = server.frontends._others[0].broker.virtual_hosts.hosts
    models = [hosts[vhost].model for vhost in ("own", "other")]
    return [
        (
            set(model.queues),
            {name: set(each.bindings) for name, each in model.exchanges.items()},
            dict(model.policies),
        )
        for model in models
    ]


def path_of(row: Row, place: str) -> str:
    """Return a path of a row in a virtual host."""
    path = "/api" + row.pattern.replace("{vhost}", place)
    for part, name in NAMES.items():
        path = re.sub(rf"/{part}/((?:[^/{{]+/)?){{name}}", rf"/{part}/\g<1>{name}", path, count=1)
    for name, value in VALUES.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, path
    return path


def body_of(row: Row) -> bytes | None:
    """Return a body that is accepted."""
    if not row.body_bytes_max:
        return None
    return next((body for part, body in BODIES.items() if f"/{part}" in row.pattern), b"{}")


def refusal(row: Row, user: User) -> str | None:
    """Return the reason why a user may not send a request; None: the user may."""
    if user.tag not in SUFFICIENT[Tag.MANAGEMENT]:
        return "Not management user"
    if user.tag not in SUFFICIENT[row.tag]:
        return REASONS[row.tag]
    return "Access refused." if user.is_denied else None


def expected(row: Row, user: User, place: str) -> tuple[int, str | None]:
    """Return the status and the reason of a refusal of a request."""
    reason = refusal(row, user)
    if reason is not None:
        return 401, reason
    is_administrator = user.tag == "administrator"
    if place == "none" or (place == "other" and not is_administrator):
        is_told = not is_administrator or row.method in {"GET", "DELETE"}
        return 404, "Not Found" if is_told else "vhost_not_found"
    if row.pattern.endswith("/actions"):
        return 400, None
    if row.method == "GET":
        return 200, None
    if place == "other" and "policies" not in row.pattern:  # no permission of AMQP allows them
        return 401, "Access refused."
    return (201 if row.method == "POST" else 204), None


@pytest.mark.parametrize("row", GUARDED, ids=lambda row: f"{row.method} {row.pattern}")
def test_each_request_requires_its_tag_and_the_rights_of_its_user(
    row: Row, client: ApiClient, broker: BrokerThread
) -> None:
    assert client.ask(row.method, path_of(row, "own"), None).status == 401
    for place in PLACES if "{vhost}" in row.pattern else ("own",):
        for user in USERS:
            broker.call(furnish)
            before = broker.call(objects)
            reply = client.ask(
                row.method, path_of(row, place), user.credentials, None, body_of(row)
            )
            status, reason = expected(row, user, place)
            assert reply.status == status, (place, user, reply)
            if reason is not None:
                assert reply.value["reason"] == reason, (place, user)
            if status >= 400 or row.method == "GET":
                assert broker.call(objects) == before


@pytest.mark.parametrize("row", OF_ACCOUNTS, ids=lambda row: f"{row.method} {row.pattern}")
def test_requests_about_accounts_require_their_tag(
    row: Row, client: ApiClient, broker: BrokerThread
) -> None:
    """Of objects that do not exist, so that those of other tests stay."""
    for user in USERS:
        name = user.credentials[0] if row.pattern == "/user-limits/{user}" else "nobody"
        path = re.sub(r"{\w+}", "nowhere", row.pattern.replace("{user}", name))
        before = broker.call(lambda server: accounts(server))
        reply = client.ask(row.method, f"/api{path}", user.credentials, None, body_of(row))
        reason = refusal(row, user)
        if reason is None:
            assert reply.status != 401, (user, reply)
        else:
            assert (reply.status, reply.value["reason"]) == (401, reason), user
            assert broker.call(lambda server: accounts(server)) == before
    assert client.ask(row.method, f"/api{path}", None).status == 401


def accounts(server: Any) -> object:
    """Return all virtual hosts, users and global parameters."""
    found = server.controller.settings.stored["AMQP"].definitions
    return dict(found.vhosts), dict(found.users), dict(found.parameters)


@pytest.mark.parametrize(
    "kind",
    ["queues", "queues/detailed", "exchanges", "bindings", "policies", "operator-policies"],
)
def test_lists_have_the_objects_of_virtual_hosts_that_the_user_may_open(
    kind: str, client: ApiClient, broker: BrokerThread
) -> None:
    broker.call(furnish)
    for user in (each for each in USERS if refusal(GUARDED[0], each) is None):
        rows = client.ask("GET", f"/api/{kind}?columns=vhost,name", user.credentials).value
        seen = {"own"} if user.tag != "administrator" else {"own", "other"}
        assert {row["vhost"] for row in rows} - {"/", "nowhere"} == seen
        page = client.ask("GET", f"/api/{kind}?page=1&page_size=1", user.credentials).value
        assert (page["total_count"], page["item_count"]) == (len(rows), 1)


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
