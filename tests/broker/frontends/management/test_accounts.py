"""Virtual hosts, users, permissions and limits by the management API: bad days."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest

from headrace.ports.store import StoreError
from headrace.testing import BrokerThread
from tests.support.amqp.management import (
    SETTINGS,
    ApiClient,
    Reply,
    make_user,
    set_password,
)

NAMES = ("plain", "a/b", "gr\u00fcn \u2713", "50%", "%2F", "a+b c", "\u00fc" * 100)
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""RabbitMQ's documented hash of `test12`, with SHA-256."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({**SETTINGS, "super.users": "User:root"}) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


def put(client: ApiClient, path: str, **body: Any) -> int:
    """Put an object; return the status."""
    return client.ask("PUT", f"/api/{path}", body=json.dumps(body).encode()).status


def get(client: ApiClient, path: str, user: str = "guest") -> Reply:
    """Get an object as a user whose password is the name."""
    return client.ask("GET", f"/api/{path}", (user, user))


def mechanisms(broker: BrokerThread, name: str) -> int:
    """Return how many SCRAM credentials a user has."""
    return broker.call(lambda server: len(server.broker.users.of(name)))


@pytest.mark.parametrize("name", NAMES)
def test_accounts_of_any_name_are_made_read_and_deleted(name: str, client: ApiClient) -> None:
    quoted = quote(name, safe="")
    for path, body in (
        (f"vhosts/{quoted}", {"tags": [name.replace("+", ""), "x"]}),
        (f"users/{quoted}", {"tags": "", "password": name}),
        (f"global-parameters/{quoted}", {"value": {name: [None, 1.5]}}),
        (f"permissions/{quoted}/{quoted}", dict.fromkeys(("configure", "write", "read"), "")),
        (
            f"topic-permissions/{quoted}/{quoted}",
            {"exchange": name, "write": "^a", "read": "{username}"},
        ),
    ):
        assert [put(client, path, **body) for _ in range(2)] == [201, 204], path
    assert get(client, f"vhosts/{quoted}").value["tags"][-1] == "x"
    assert get(client, f"global-parameters/{quoted}").value["value"] == {name: [None, 1.5]}
    assert get(client, f"users/{quoted}/permissions").value[0]["vhost"] == name
    assert get(client, f"vhosts/{quoted}/topic-permissions").value[0]["exchange"] == name
    for kind in ("global-parameters", "vhosts", "users"):
        assert name in [row["name"] for row in get(client, kind).value]
        path = f"/api/{kind}/{quoted}"
        assert [client.ask("DELETE", path).status for _ in range(2)] == [204, 404]


def test_password_changed_on_an_open_connection_ends_the_memory_of_the_old_one(
    broker: BrokerThread, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), ApiClient(broker) as other:
        assert put(client, "users/ann", password="ann", tags="monitoring") == 201
        assert get(other, "whoami", "ann").value["tags"] == ["monitoring"]
        assert put(client, "users/ann", password="changed-secret", tags="monitoring") == 204
        assert get(other, "whoami", "ann").status == 401
        found = other.ask("GET", "/api/whoami", ("ann", "changed-secret"))
        assert found.status == 200
        assert put(client, "users/ann", tags="monitoring") == 204
        assert other.ask("GET", "/api/whoami", ("ann", "changed-secret")).status == 401
        assert mechanisms(broker, "ann") == 0
        assert put(client, "users/ann", password="", tags="monitoring") == 204
        assert other.ask("GET", "/api/whoami", ("ann", "")).status == 401
    assert "changed-secret" not in caplog.text


def test_user_deleted_while_its_connection_is_open_is_refused_at_once(
    broker: BrokerThread, client: ApiClient
) -> None:
    make_user(broker, "leaver", "administrator")
    with ApiClient(broker) as other:
        assert get(other, "users", "leaver").status == 200
        assert client.ask("DELETE", "/api/users/leaver").status == 204
        assert get(other, "users", "leaver").status == 401
    assert get(client, "users/leaver").status == 404


def test_hash_replaces_a_password_and_a_login_replaces_the_hash(
    broker: BrokerThread, client: ApiClient
) -> None:
    assert put(client, "users/moved", password="old", tags="management") == 201
    assert mechanisms(broker, "moved") == 2
    assert put(client, "users/moved", password_hash=HASH, tags="management") == 204
    assert mechanisms(broker, "moved") == 0
    assert get(client, "users/moved").value["password_hash"] == HASH
    assert client.ask("GET", "/api/whoami", ("moved", "old")).status == 401
    assert client.ask("GET", "/api/whoami", ("moved", "test12")).status == 200
    assert put(client, "users/moved", password="new", tags="management") == 204
    shown = get(client, "users/moved").value
    assert (shown["password_hash"], shown["hashing_algorithm"]) == ("", "headrace_scram_sha256")
    assert client.ask("GET", "/api/whoami", ("moved", "test12")).status == 401


def test_user_with_scram_credentials_alone_is_listed_without_its_former_hash(
    broker: BrokerThread, client: ApiClient
) -> None:
    set_password(broker, "of-kafka", "of-kafka")
    for path in ("users", "users/without-permissions"):
        assert "of-kafka" in {row["name"] for row in get(client, path).value}
    assert put(client, "users/of-kafka", password_hash=HASH, tags="management") == 204
    set_password(broker, "of-kafka", "of-kafka")
    assert get(client, "users/of-kafka").value["password_hash"] == ""
    assert put(client, "users/of-kafka", password="of-kafka", tags="management") == 204

    def stored(server: Any) -> str:
        users = server.controller.settings.stored["AMQP"].definitions.users
        return str(users["of-kafka"].password_hash)

    assert broker.call(stored) == "", "the hash would be valid again without the password"


def test_limits_and_names_of_others_are_shown_to_users_who_monitor(
    broker: BrokerThread, client: ApiClient
) -> None:
    for name, tag in (("nosy", "management"), ("watcher", "monitoring")):
        make_user(broker, name, tag)
        put(client, f"user-limits/{name}/max-channels", value=3)
    assert get(client, "user-limits/nosy", "nosy").value[0]["value"] == {"max-channels": 3}
    assert get(client, "user-limits/watcher", "nosy").status == 401
    assert get(client, "user-limits/nosy", "watcher").status == 200
    put(client, "vhost-limits/%2F/max-queues", value=9999)
    for path in ("vhosts", "vhost-limits"):
        assert get(client, path, "nosy").value == [], "it may open no virtual host"
        assert get(client, path, "watcher").value != []


def test_two_administrators_of_one_user_lose_nothing(broker: BrokerThread) -> None:
    make_user(broker, "shared")

    def change(number: int) -> int:
        with ApiClient(broker) as mine:
            if number % 2:
                return put(mine, f"user-limits/shared/max-{'channels'}", value=number)
            put(mine, f"vhosts/shared-{number}")
            body = dict.fromkeys(("configure", "write", "read"), ".*")
            return put(mine, f"permissions/shared-{number}/shared", **body)

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(change, range(6))) == {201, 204}
    with ApiClient(broker) as client:
        granted = get(client, "users/shared/permissions").value
        assert [row["vhost"] for row in granted] == ["shared-0", "shared-2", "shared-4"]
        assert get(client, "users/shared").value["limits"]["max-channels"] in {1, 3, 5}


def test_limit_below_what_exists_refuses_only_what_is_new(client: ApiClient) -> None:
    put(client, "vhosts/small")
    for name in ("a", "b"):
        assert put(client, f"queues/small/{name}") == 201
    assert put(client, "vhost-limits/small/max-queues", value=1) == 204
    assert put(client, "queues/small/a") == 204
    assert put(client, "queues/small/c") == 400
    assert len(get(client, "queues/small").value) == 2
    assert client.ask("DELETE", "/api/vhost-limits/small/max-queues").status == 204
    assert put(client, "queues/small/c") == 201
    assert put(client, "vhost-limits/small/max-queues", value=True) == 400
    assert get(client, "vhost-limits/small").value == []


def test_vhost_deleted_while_it_is_declared_into_is_empty_when_created_again(
    broker: BrokerThread, client: ApiClient
) -> None:
    def declare(worker: int) -> set[int]:
        with ApiClient(broker) as mine:
            path = "queues/raced/{}-{}"
            return {put(mine, path.format(worker, number), durable=True) for number in range(60)}

    put(client, "vhosts/raced")
    put(client, "queues/raced/first", durable=True)
    with ThreadPoolExecutor(3) as threads:
        declaring = [threads.submit(declare, worker) for worker in range(3)]
        assert client.ask("DELETE", "/api/vhosts/raced").status == 204
        assert set().union(*(each.result(20) for each in declaring)) <= {201, 401, 404}
    assert put(client, "vhosts/raced") == 201
    assert get(client, "queues/raced").value == []
    assert [row["user"] for row in get(client, "vhosts/raced/permissions").value] == ["guest"]


def test_protected_vhost_stays_with_its_objects(client: ApiClient) -> None:
    put(client, "vhosts/kept", default_queue_type="quorum", protected_from_deletion=True)
    put(client, "queues/kept/q", durable=True)
    refused = client.ask("DELETE", "/api/vhosts/kept")
    assert (refused.status, refused.value["error"]) == (412, "precondition_failed")
    assert get(client, "queues/kept/q").value["type"] == "quorum"
    assert put(client, "vhosts/kept") == 204
    shown = get(client, "vhosts/kept").value
    assert (shown["protected_from_deletion"], shown["default_queue_type"]) == (True, "classic")
    assert client.ask("DELETE", "/api/vhosts/kept/deletion/protection").status == 204
    assert client.ask("DELETE", "/api/vhosts/kept").status == 204


@contextmanager
def store_away(broker: BrokerThread, after: int) -> Iterator[None]:
    """Have all changes of vhosts and users fail after some that succeed."""

    def begin(server: Any) -> Any:
        configs = server.controller.settings.stored["AMQP"]._configs
        change, left = configs.change, after

        async def changed(path: str, *values: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise StoreError("the store is away")
            return await change(path, *values, **named)

        configs.change = changed
        return configs

    configs = broker.call(begin)
    try:
        yield
    finally:
        broker.call(lambda _: delattr(configs, "change"))


@pytest.mark.parametrize(
    ("path", "body", "writes"),
    [
        ("users/half", {"password": "half", "tags": "management"}, 0),
        ("users/half", {"password": "half", "tags": "management"}, 2),
        ("vhosts/half", {}, 0),
        ("vhosts/half", {}, 1),
    ],
)
def test_change_that_meets_no_store_is_completed_when_it_is_repeated(
    path: str, body: dict[str, str], writes: int, broker: BrokerThread, client: ApiClient
) -> None:
    with store_away(broker, writes):
        assert put(client, path, **body) == 503
        assert "half" not in {row["vhost"] for row in get(client, "permissions").value}
    assert put(client, path, **body) in {201, 204}
    if path.startswith("users"):
        assert get(client, "whoami", "half").status == 200
    else:
        granted = get(client, f"{path}/permissions").value
        assert [row["user"] for row in granted] == ["guest"]
        with store_away(broker, 1):
            assert client.ask("DELETE", f"/api/{path}").status == 503
        assert get(client, path).status == 200
    assert client.ask("DELETE", f"/api/{path}").status == 204


def test_only_a_super_user_changes_one(broker: BrokerThread, client: ApiClient) -> None:
    make_user(broker, "root")
    for method, path in (("PUT", "users/root"), ("DELETE", "users/root")):
        refused = client.ask(method, f"/api/{path}", body=b'{"password":"x","tags":""}')
        assert (refused.status, refused.value["reason"]) == (401, "Access refused.")
    refused = client.ask("POST", "/api/users/bulk-delete", body=b'{"users":["half","root"]}')
    assert refused.status == 401
    body = b'{"password":"root","tags":"management"}'
    assert client.ask("PUT", "/api/users/root", ("root", "root"), body=body).status == 204


def test_users_are_deleted_together_and_unknown_ones_ignored(client: ApiClient) -> None:
    for name in ("one", "two"):
        put(client, f"users/{name}", password="x", tags=["a", "a", " b"])
    assert get(client, "users/one").value["tags"] == ["a", "b"]
    body = b'{"users":["one","two","unknown"]}'
    assert client.ask("POST", "/api/users/bulk-delete", body=body).status == 204
    assert not {"one", "two"} & {row["name"] for row in get(client, "users").value}
