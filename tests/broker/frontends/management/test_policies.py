"""Policies by the management API: their effect once they are answered, races, failures."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import StoreError
from headrace.queues.model.declarations import ExchangeFlags, QueueFlags
from headrace.testing import BrokerThread
from headrace.vhosts import durable_queues
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.policies import visits
from tests.support.amqp.management import SETTINGS, ApiClient, administer, basic, port_of
from tests.support.queues.policies import policy_value
from tests.support.queues.port_place import persistent

INVALID: dict[str, Any] = {
    "pattern": policy_value("("),
    "half a character": policy_value("\ud800"),
    "its definition": policy_value(definition={"dead-letter-exchange": "\ud800"}),
    "its key": policy_value(definition={"\ud800": [1]}),
    "definition": policy_value(definition=None),
    "key": policy_value(definition={"max-length": 1, "nosuch": {"a": [1]}}),
    "priority": policy_value(priority=True),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


def put(client: ApiClient, path: str, value: object) -> int:
    """Set a policy of the vhost `/`, and return the status."""
    kind, _, name = path.partition("/")
    body = json.dumps(value).encode()
    return client.ask("PUT", f"/api/{kind}/%2F/{name}", body=body).status


def host_of(server: Any) -> Any:
    """Return the queues of the vhost `/`."""
    return server.frontends._others[0].broker.virtual_hosts.hosts["/"]


def publish(broker: BrokerThread, count: int, queue: str = "q") -> int:
    """Declare a queue if need be, publish to it, and return how many messages it has."""

    def published(server: Any) -> int:
        host = host_of(server)
        if queue not in host.model.queues:
            host.declare_queue(queue, QueueFlags(), {}, None)
        for number in range(count):
            host.publish([queue], persistent(str(number)))
        return int(host.queues[queue].ready) if queue in host.queues else 0

    return broker.call(published)


def applied(client: ApiClient, queue: str) -> tuple[Any, ...]:
    """Return the policies of a queue and their join."""
    row = client.ask("GET", f"/api/queues/%2F/{queue}").value
    return row["policy"], row["operator_policy"], row["effective_policy_definition"]


def test_an_answered_policy_is_applied_and_an_answered_deletion_ends_it(
    broker: BrokerThread, client: ApiClient
) -> None:
    assert publish(broker, 12) == 12
    assert put(client, "policies/length", policy_value("^q$")) == 201
    assert publish(broker, 0) == 3
    assert publish(broker, 2) == 3
    assert put(client, "policies/length", policy_value(definition={"max-length": 1})) == 204
    assert publish(broker, 0) == 1
    assert client.ask("DELETE", "/api/policies/%2F/length").status == 204
    assert publish(broker, 2) == 3
    assert client.ask("DELETE", "/api/policies/%2F/length").status == 404


def test_an_answer_waits_for_all_queues(
    broker: BrokerThread, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "SLICE_SECONDS", 0)
    names = [f"many{number}" for number in range(60)]
    for name in names:
        publish(broker, 0, name)

    def limits(server: Any) -> set[object]:
        return {host_of(server).model.queues[name].settings.length_max for name in names}

    assert put(client, "policies/many", policy_value("^many")) == 201
    assert broker.call(limits) == {3}
    assert client.ask("DELETE", "/api/policies/%2F/many").status == 204
    assert broker.call(limits) == {None}


def test_policies_of_users_and_of_operators_are_apart(
    broker: BrokerThread, client: ApiClient
) -> None:
    publish(broker, 0, "both")
    lengths = {"max-length": 9, "overflow": "reject-publish"}
    assert put(client, "policies/both", policy_value("^both", definition=lengths)) == 201
    assert applied(client, "both") == ("both", None, lengths)
    assert put(client, "operator-policies/both", policy_value("^both")) == 201
    assert applied(client, "both") == ("both", "both", lengths | {"max-length": 3})
    for kind, left in (("policies", "operator-policies"), ("operator-policies", None)):
        assert client.ask("DELETE", f"/api/{kind}/%2F/both").status == 204
        assert client.ask("GET", f"/api/{kind}/%2F/both").status == 404
        if left is not None:
            assert client.ask("GET", f"/api/{left}/%2F/both").status == 200
            assert applied(client, "both") == (None, "both", {"max-length": 3})
    assert applied(client, "both") == (None, None, {})


def test_an_exchange_names_its_policy(broker: BrokerThread, client: ApiClient) -> None:
    declare: tuple[Any, ...] = ("named", "fanout", ExchangeFlags(), {})
    broker.call(lambda server: host_of(server).model.declare_exchange(*declare))
    value = policy_value("^named", definition={"alternate-exchange": "amq.fanout"})
    assert put(client, "policies/alternate", value) == 201
    path = "/api/exchanges/%2F/named"
    assert client.ask("GET", path).value["policy"] == "alternate"
    assert client.ask("DELETE", "/api/policies/%2F/alternate").status == 204
    assert "policy" not in client.ask("GET", path).value


@pytest.mark.parametrize("name", ["a/b", "gr\u00fcn \u2713", "%2F", "p" * 255])
def test_a_policy_of_any_name_is_set_read_and_deleted(name: str, client: ApiClient) -> None:
    value, quoted = policy_value("^never$", priority=2.5), quote(name, safe="")
    assert [put(client, f"policies/{quoted}", value | {"extra": 1}) for _ in "ab"] == [201, 204]
    row = {"vhost": "/", "name": name, "apply-to": "all", **value}
    assert client.ask("GET", f"/api/policies/%2F/{quoted}").value == row
    assert row in client.ask("GET", "/api/policies").value
    page = client.ask("GET", f"/api/policies/%2F?page=1&name={quoted}&columns=name,priority")
    assert page.value["items"] == [{"name": name, "priority": 2.5}]
    assert client.ask("DELETE", f"/api/policies/%2F/{quoted}").status == 204


@pytest.mark.parametrize("value", INVALID.values(), ids=INVALID)
def test_an_invalid_policy_leaves_the_present_one(
    value: object, broker: BrokerThread, client: ApiClient
) -> None:
    put(client, "policies/kept", policy_value("^kept"))
    before = client.ask("GET", "/api/policies").value
    for name in ("kept", "new"):
        assert put(client, f"policies/{name}", value) == 400
    with pytest.raises(ApiError, match="Validation failed") as refused:
        administer(broker, "policy.set", vhost="/", name="kept", value=value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert client.ask("GET", "/api/policies").value == before


def test_of_two_settings_of_a_new_policy_at_once_one_creates_it(
    broker: BrokerThread, client: ApiClient
) -> None:
    links = [socket.create_connection(("127.0.0.1", port_of(broker)), 20) for _ in range(2)]
    for link, priority in zip(links, (1, 2), strict=True):
        body = json.dumps(policy_value("^never$", priority=priority)).encode()
        head = f"Authorization: {basic('guest', 'guest')}\r\nContent-Length: {len(body)}\r\n"
        path = "/api/policies/%2F/raced"
        link.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
    assert sorted(int(link.recv(4000)[9:12]) for link in links) == [201, 204]
    for link in links:
        link.close()
    assert client.ask("GET", "/api/policies/%2F/raced").value["priority"] in {1, 2}


@pytest.mark.parametrize(
    "fault", [lambda: ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "planted"), StoreError]
)
def test_a_policy_that_is_not_stored_yet_is_503_and_can_be_set_again(
    fault: Callable[[], Exception],
    broker: BrokerThread,
    client: ApiClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.02)
    append, fails = DeclarationLog.append, [True]

    async def failing(log: DeclarationLog, changes: Mapping[bytes, Change]) -> None:
        if changes and fails:
            fails.clear()
            raise fault()
        await append(log, changes)

    monkeypatch.setattr(DeclarationLog, "append", failing)
    assert put(client, "policies/late", policy_value("^late")) == 503
    assert put(client, "policies/late", policy_value("^late")) == 204
    assert client.ask("DELETE", "/api/policies/%2F/late").status == 204


def test_policies_are_kept_over_a_restart(tmp_path: Path) -> None:
    paths = ("/api/policies", "/api/operator-policies")
    lists = []
    for status in (201, 204):
        with BrokerThread(SETTINGS, directory=str(tmp_path)) as broker, ApiClient(broker) as client:
            if status == 204:
                assert publish(broker, 5) == 3
                lists.append([client.ask("GET", path).value for path in paths])
            assert put(client, "policies/p", policy_value("^q", priority=1)) == status
            assert put(client, "operator-policies/p", policy_value("^q")) == status
            lists.append([client.ask("GET", path).value for path in paths])
    assert lists[0] == lists[1] == lists[2]
    assert [len(found) for found in lists[0]] == [1, 1]
