"""Queues, exchanges and bindings by the management API: changes, races, lists that change."""

import http.client
import json
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from headrace.queues.model.declarations import ExchangeFlags
from headrace.testing import BrokerThread
from tests.support.amqp.management import (
    GUEST,
    SETTINGS,
    ApiClient,
    administer,
    basic,
    make_user,
    make_vhost,
    on_frontend,
    port_of,
)
from tests.support.queues.port_place import persistent
from tests.support.queues.restarts import eventually

MANY, LONG = 4000, "x" * 2000
"""Exchanges of a list that no buffer holds, and their arguments."""
NAMES = ("plain", "a/b", "gr\u00fcn \u2713", "%2F", "a+b c", ".", "detailed", "q" * 255, "~")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[ApiClient]:
    with ApiClient(broker) as made:
        yield made


def host_of(server: Any, vhost: str) -> Any:
    """Return the queues of a virtual host."""
    return server.frontends._others[0].broker.virtual_hosts.hosts[vhost]


@pytest.mark.parametrize("name", NAMES)
def test_an_object_of_any_name_is_made_read_and_deleted(name: str, client: ApiClient) -> None:
    quoted = quote(name, safe="")
    for kind, body in (("queues", b'{"durable":true}'), ("exchanges", b'{"type":"topic"}')):
        path = f"/api/{kind}/%2F/{quoted}"
        assert [client.ask("PUT", path, body=body).status for _ in range(2)] == [201, 204]
        found = client.ask("GET", path)
        assert (found.status, found.value["name"], found.value["vhost"]) == (200, name, "/")
        assert name in [row["name"] for row in client.ask("GET", f"/api/{kind}/%2F").value]
        assert client.ask("HEAD", path).value == client.ask("HEAD", f"/api/{kind}").value == b""
    binding = f"/api/bindings/%2F/e/{quoted}/q/{quoted}"
    body = json.dumps({"routing_key": name, "arguments": {"a": name}}).encode()
    location = client.ask("POST", binding, body=body).headers["location"]
    assert location.startswith(f"{quoted}/")
    one = f"{binding}/{location.partition('/')[2]}"
    assert client.ask("GET", one).value["routing_key"] == name
    assert client.ask("DELETE", one).status == 204
    assert client.ask("DELETE", one).status == 404
    for kind in ("queues", "exchanges"):
        path = f"/api/{kind}/%2F/{quoted}"
        assert [client.ask("DELETE", path).status for _ in range(2)] == [204, 404]


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("queues/%2F/" + "q" * 256, {}, None),
        ("queues/%2F/a%0Ab", {}, "queue.declare: name 'a\\nb' has a line end in it"),
        ("queues/%2F/q", {"arguments": [1]}, "arguments are no JSON object"),
        ("queues/%2F/q", {"arguments": {"x": {"y": [1, None]}}}, "null_not_allowed"),
        ("queues/%2F/q", {"arguments": {"x": 1 << 64}}, None),
        ("queues/%2F/q", {"durable": 1}, ["not_boolean", "1"]),
        ("queues/%2F/q", {"node": 7}, "Node 7 is not a cluster member"),
        ("exchanges/%2F/x", {"type": 7}, "type is no string"),
    ],
)
def test_an_invalid_declaration_changes_nothing(
    path: str, body: Any, reason: Any, client: ApiClient, broker: BrokerThread
) -> None:
    before = broker.call(lambda server: len(host_of(server, "/").model.queues))
    refused = client.ask("PUT", f"/api/{path}", body=json.dumps(body).encode())
    assert (refused.status, refused.value["error"]) == (400, "bad_request")
    assert reason is None or refused.value["reason"] == reason
    assert broker.call(lambda server: len(host_of(server, "/").model.queues)) == before


def test_no_arguments_may_be_an_empty_list(client: ApiClient) -> None:
    assert client.ask("PUT", "/api/queues/%2F/php", body=b'{"arguments":[]}').status == 201
    assert client.ask("GET", "/api/queues/%2F/php").value["arguments"] == {
        "x-queue-type": "classic"
    }


def test_a_node_of_the_cluster_may_be_named(client: ApiClient) -> None:
    node = client.ask("GET", "/api/overview").value["node"]
    body = json.dumps({"node": node}).encode()
    assert client.ask("PUT", "/api/queues/%2F/placed", body=body).status == 201
    assert client.ask("GET", "/api/queues/%2F/placed").value["node"] == node


def test_conditions_of_a_deletion_are_checked(client: ApiClient, broker: BrokerThread) -> None:
    assert client.ask("PUT", "/api/queues/%2F/full", body=b"{}").status == 201
    broker.call(lambda server: host_of(server, "/").publish(["full"], persistent("a")))
    refused = client.ask("DELETE", "/api/queues/%2F/full?if-empty=true")
    assert (refused.status, refused.value["reason"]) == (400, "queue 'full' in vhost '/' not empty")
    found = client.ask("GET", "/api/queues/%2F/full").value
    assert (found["messages"], found["message_bytes_ready"]) == (1, 1)
    assert client.ask("DELETE", "/api/queues/%2F/full?if-empty=no&if-unused=true").status == 204
    client.ask("PUT", "/api/exchanges/%2F/used")
    client.ask("POST", "/api/bindings/%2F/e/used/e/amq.fanout")
    refused = client.ask("DELETE", "/api/exchanges/%2F/used?if-unused=true")
    assert refused.value["reason"] == "exchange 'used' in vhost '/' in use"
    assert client.ask("DELETE", "/api/exchanges/%2F/used").status == 204


def test_of_two_declarations_at_once_one_is_done_and_one_refused(broker: BrokerThread) -> None:
    links = [socket.create_connection(("127.0.0.1", port_of(broker)), 20) for _ in range(2)]
    for link, length in zip(links, (1, 2), strict=True):
        body = json.dumps({"arguments": {"x-max-length": length}}).encode()
        head = f"Authorization: {basic('guest', 'guest')}\r\nContent-Length: {len(body)}\r\n"
        link.sendall(f"PUT /api/queues/%2F/raced HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
    assert sorted(int(link.recv(4000)[9:12]) for link in links) == [201, 400]
    for link in links:
        link.close()


class SlowReader:
    """A client that has received the beginning of a list."""

    def __init__(self, broker: BrokerThread, path: str, user: tuple[str, str]) -> None:
        self._link = socket.socket()
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._link.settimeout(20)
        self._link.connect(("127.0.0.1", port_of(broker)))
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {basic(*user)}\r\n\r\n"
        self._link.sendall(head.encode())
        self._answer = http.client.HTTPResponse(self._link)
        self._answer.begin()
        self.begun = self._answer.read(100)

    def rest(self) -> list[dict[str, Any]]:
        """Return the rows of the whole list."""
        # With the small buffer the kernel takes seconds: longer than a stop waits.
        self._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        found: list[dict[str, Any]] = json.loads(self.begun + self._answer.read())
        return found

    def leave(self) -> None:
        """Close the connection."""
        self._answer.close()
        self._link.close()


def declare_many(model: Any) -> None:
    """Declare many exchanges with long arguments."""
    for number in range(MANY):
        model.declare_exchange(f"x{number}", "direct", ExchangeFlags(), {"long": LONG})


@pytest.fixture
def many(broker: BrokerThread) -> Iterator[tuple[str, str]]:
    """A user that sees a virtual host with many exchanges, by the name `many`."""
    user = make_user(broker, "reader", "management")
    make_vhost(broker, "many", "reader")
    broker.call(lambda server: declare_many(host_of(server, "many").model))
    yield user
    if any(row["name"] == "many" for row in administer(broker, "vhost.list")):
        administer(broker, "vhost.delete", name="many")


CHANGES: dict[str, Callable[[BrokerThread], Any]] = {
    "vhost deleted": lambda broker: administer(broker, "vhost.delete", name="many"),
    "permission cleared": lambda broker: administer(
        broker, "permission.clear", user="reader", vhost="many"
    ),
    "tag removed": lambda broker: administer(broker, "user.put", name="reader", tags=[]),
    "user deleted": lambda broker: administer(broker, "user.delete", name="reader"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_right_that_is_lost_while_a_list_is_sent_ends_it(
    change: str, many: tuple[str, str], broker: BrokerThread
) -> None:
    reader = SlowReader(broker, "/api/exchanges", many)
    CHANGES[change](broker)
    rows = reader.rest()
    assert 0 < len(rows) < MANY
    assert all(row["arguments"]["long"] == LONG for row in rows if row["name"].startswith("x"))
    reader.leave()


def test_a_client_that_leaves_a_list_leaves_nothing(
    many: tuple[str, str], broker: BrokerThread, client: ApiClient
) -> None:
    client.ask("GET", "/api/whoami")
    before = on_frontend(broker, lambda found: found.endpoint.connections)
    reader = SlowReader(broker, "/api/exchanges/many", many)
    page = client.ask("GET", "/api/exchanges/many?page=1&page_size=2&sort=name&sort_reverse=true")
    assert [row["name"] for row in page.value["items"]] == ["x999", "x998"]
    assert page.value["total_count"] == MANY + 7
    reader.leave()
    eventually(lambda: on_frontend(broker, lambda found: found.endpoint.connections) == before)


def test_a_stop_sends_the_rest_of_a_list_that_is_read(caplog: pytest.LogCaptureFixture) -> None:
    with BrokerThread(SETTINGS) as broker, ThreadPoolExecutor() as pool:
        broker.call(lambda server: declare_many(host_of(server, "/").model))
        reader = SlowReader(broker, "/api/exchanges", GUEST)
        stopped = pool.submit(broker.stop)
        assert len(reader.rest()) == MANY + 7
        stopped.result(20)
        reader.leave()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
