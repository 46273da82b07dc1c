"""Rows of queues, and the properties keys of bindings, from views of a cluster."""

import asyncio
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.metadata_image import BrokerInfo, Endpoint
from headrace.management.objects import bindings, queues
from headrace.management.objects.bindings import properties_key
from headrace.management.objects.overview import node_number
from headrace.management.requests.errors import ManagementError
from headrace.management.requests.request import ManagementRequest, RequestUser
from headrace.model.nouns import BrokerId
from headrace.operations.permissions import Caller, Surface
from headrace.operations.queues import DeleteBinding
from headrace.operations.views import BindingKey, BindingView, OwnerView, QueueCounts, QueueView
from headrace.queues.permissions.definitions import Definitions
from headrace.security.authorizer import AllowsAll
from headrace.security.identity import Identity

BROKERS = {BrokerId(n): BrokerInfo(BrokerId(n), (Endpoint("A", f"h{n}", 1),)) for n in (1, 2, 3)}
CALLER = Caller(Identity("", ""), Surface.MANAGEMENT, "", lambda: ("administrator",))
QUEUE = QueueView(
    "/", "q", "quorum", True, False, False, None, {"x-queue-type": "quorum"}, 20, 2, (1, 2, 3),
    (1, 2), "running", QueueCounts(3, 30, 2, 1),
)  # fmt: skip
COUNTED = {"messages", "messages_ready", "messages_unacknowledged"}


class Views:
    """The one object that there is. Implements `operations.views.View`."""

    def __init__(self, found: Any) -> None:
        self.found = found
        self.asked: list[Any] = []

    def describe(self, key: Any) -> Any:
        return self.found

    async def keys_of(self, vhost: str, **ends: Any) -> list[BindingKey]:
        return [self.found.key]

    async def call(self, caller: Caller, asked: Any) -> Any:
        """Return itself as the view. As `Operations.call`."""
        assert caller is CALLER
        self.asked.append(asked)
        return self


def request(views: Views, query: dict[str, str], **values: str) -> Any:
    """Return a request about an object of the vhost `/`."""
    broker = SimpleNamespace(
        broker_id=BrokerId(1), image=SimpleNamespace(brokers=BROKERS), authorizer=AllowsAll()
    )
    accounts = SimpleNamespace(definitions=Definitions())
    services: Any = SimpleNamespace(broker=broker, accounts=accounts, operations=views)
    user = RequestUser("ann")
    return ManagementRequest("GET", {"vhost": "/", **values}, query, b"", CALLER, user, services)


def row(found: QueueView, **query: str) -> Any:
    """Return the row of a queue."""
    return asyncio.run(queues.queue(request(Views(found), query, name="q"))).value


def test_a_queue_names_its_brokers_as_nodes() -> None:
    found = row(QUEUE)
    assert (found["node"], found["leader"]) == ("headrace-2@h2", "headrace-2@h2")
    assert found["members"] == [f"headrace-{n}@h{n}" for n in (1, 2, 3)]
    assert found["online"] == ["headrace-1@h1", "headrace-2@h2"]
    assert [found[name] for name in sorted(COUNTED)] == [5, 3, 2]


def test_a_node_is_named_by_our_name_or_by_the_only_broker_of_its_host() -> None:
    image = SimpleNamespace(brokers=dict(BROKERS))
    broker: Any = SimpleNamespace(broker_id=BrokerId(1), image=image)
    assert node_number(broker, "headrace-2@h2") == node_number(broker, "rabbit@h2") == 2
    for unknown in ("headrace-2@h3", "headrace-4@h4", "rabbit@h4", "h2", "", None, 2):
        assert node_number(broker, unknown) is None
    image.brokers[BrokerId(4)] = BROKERS[BrokerId(2)]._replace(broker_id=BrokerId(4))
    assert node_number(broker, "rabbit@h2") is None, "two brokers have that host"
    assert node_number(broker, "headrace-4@h2") == 4


def test_a_queue_without_a_leader_names_the_preferred_one_as_node() -> None:
    found = row(QUEUE._replace(leader=None, state="down"))
    assert (found["node"], found["leader"], found["state"]) == ("headrace-1@h1", None, "down")
    assert "node" not in row(QUEUE._replace(leader=None, members=(), type="classic"))


def test_a_classic_queue_of_one_broker_has_no_members() -> None:
    found = row(QUEUE._replace(type="classic", members=(2,)))
    assert {"members", "online", "leader", "delivery_limit"}.isdisjoint(found)
    assert "members" in row(QUEUE._replace(type="classic"))


@pytest.mark.parametrize(("limit", "shown"), [(20, 20), (0, 0), (None, "unlimited")])
def test_a_delivery_limit_may_be_unlimited(limit: int | None, shown: object) -> None:
    assert row(QUEUE._replace(delivery_limit=limit))["delivery_limit"] == shown


def test_counts_that_another_broker_has_are_left_out() -> None:
    found = row(QUEUE._replace(counts=None))
    assert {*COUNTED, "consumers", "message_bytes_ready"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("query", "totals", "statistics"),
    [
        ({}, True, True),
        ({"disable_stats": "true"}, False, False),
        ({"disable_stats": "true", "enable_queue_totals": "true"}, True, False),
        ({"disable_stats": "false", "enable_queue_totals": "false"}, True, True),
    ],
)
def test_statistics_are_left_out_if_asked(
    query: dict[str, str], totals: bool, statistics: bool
) -> None:
    found = row(QUEUE, **query)
    assert found.keys() >= COUNTED if totals else COUNTED.isdisjoint(found)
    assert ("consumers" in found) == ("message_bytes_ready" in found) == statistics


def test_an_exclusive_queue_has_its_connection() -> None:
    owner = OwnerView("h:1", "h", 1)
    found = row(QUEUE._replace(exclusive=True, owner=owner))
    assert found["owner_pid_details"] == {"name": "h:1", "peer_host": "h", "peer_port": 1}


def view_of(routing_key: str, hashed: str) -> Views:
    key = BindingKey("/", "x", "q", "queue", routing_key, hashed, {"a": 1})
    return Views(BindingView(key, {"a": 1}))


@given(st.text(), st.sampled_from(["", "a_-9"]))
def test_a_properties_key_names_its_binding_alone(routing_key: str, hashed: str) -> None:
    try:
        key = properties_key(routing_key, hashed)
    except UnicodeEncodeError:
        return
    assert key
    views = view_of(routing_key, hashed)
    ends = {"source": "x", "name": "q"}
    found = asyncio.run(bindings.one_to_queue(request(views, {}, properties=key, **ends)))
    assert found.value["properties_key"] == key  # type: ignore[index]
    for other in (f"{key}x", "~other", unquote(key) + "~~"):
        if other != key:
            with pytest.raises(ManagementError):
                asyncio.run(bindings.one_to_queue(request(views, {}, properties=other, **ends)))


@pytest.mark.parametrize(
    ("routing_key", "hashed", "key"),
    [
        ("k1", "", "k1"),
        ("", "", "~"),
        ("", "8Iu6_A", "~8Iu6_A"),
        ("k2", "XU23xQ", "k2~XU23xQ"),
        ("a/b ~c%", "", "a%2Fb+%7Ec%25"),
        ("#.k", "", "%23.k"),
        ("gold-\u00fc 1%/x", "", "gold-%C3%BC+1%25%2Fx"),
    ],
)
def test_properties_keys_are_as_recorded(routing_key: str, hashed: str, key: str) -> None:
    assert properties_key(routing_key, hashed) == key


def test_a_space_may_be_quoted_in_two_ways_and_the_deleted_binding_is_the_named_one() -> None:
    views = view_of("a b", "hash")
    for key in ("a+b~hash", "a%20b~hash"):
        asked = request(views, {}, properties=key, source="amq.default", name="q")
        assert asyncio.run(bindings.delete_to_queue(asked)).status == 204
        assert views.asked[-1] == DeleteBinding("/", "", "queue", "q", "a b", {"a": 1})
