"""Views of queues, exchanges and bindings: what the management API lists."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.frontends.amqp.administration import Administration
from headrace.frontends.amqp.views.bindings import SLICE as BINDINGS
from headrace.frontends.amqp.views.names import SLICE
from headrace.model.errors import ApiError
from headrace.operations.permissions import Caller, Surface
from headrace.operations.queues import DeclareQueue, DeleteQueue
from headrace.operations.registry import Operations
from headrace.operations.views import (
    NONE_APPLIED,
    QueueCounts,
    QueueView,
    ViewBindings,
    ViewExchanges,
    ViewPolicies,
    ViewQueues,
    arguments_hash,
)
from headrace.operations.virtual_hosts import ClearPolicy, SetPolicy
from headrace.queues.model.declarations import QueueFlags
from headrace.security.identity import USER, Identity, Principal
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.field_table import FieldTable, Long, UInt8
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import BasicAck, QueueBind
from tests.support.amqp.administration import Vhost
from tests.support.cluster.peer_kit import play, started
from tests.support.queues.policies import policy_value
from tests.support.sim.amqp import frontend_of, serve_amqp
from tests.support.sim.cluster import until

ANN = Identity("10.0.0.1", "MANAGEMENT", Principal(USER, "ann"))
CALLER = Caller(ANN, Surface.MANAGEMENT, "GET /", lambda: ("administrator",))


@pytest.fixture
def vhost() -> Vhost:
    return Vhost()


def viewed(vhost: Vhost, asked: Any) -> Any:
    """Return a view."""
    return asyncio.run(vhost.operations.call(CALLER, asked))


def queue(vhost: Vhost, name: str = "q") -> QueueView:
    """Return a queue, which exists."""
    found: QueueView | None = viewed(vhost, ViewQueues()).describe(("/", name))
    assert found is not None
    return found


def test_a_queue_has_its_declaration_and_counts(vhost: Vhost) -> None:
    client = vhost.client
    client.declare(auto_delete=True, arguments={"x-max-length": Long(9)})
    client.publish(b"12", b"345", b"6")
    found = queue(vhost)
    assert found == QueueView(
        "/", "q", "classic", False, True, False, None,
        {"x-max-length": 9, "x-queue-type": "classic"}, 20, 1, (1,), (1,), "running",
        QueueCounts(3, 6, 0, 0),
    )  # fmt: skip
    client.consume()
    client.heard()
    assert queue(vhost).counts == QueueCounts(0, 0, 3, 1)


def test_an_exclusive_queue_names_its_connection(vhost: Vhost) -> None:
    vhost.client.declare(exclusive=True)
    found = queue(vhost)
    assert found.exclusive
    assert found.owner is not None
    assert found.owner.name == f"{found.owner.peer_host}:{found.owner.peer_port}"
    vhost.client.connection.lost()
    assert viewed(vhost, ViewQueues()).describe(("/", "q")) is None


@pytest.mark.parametrize(("given", "limit"), [({}, 20), ({"x-delivery-limit": 7}, 7),
                                              ({"x-delivery-limit": -1}, None)])  # fmt: skip
def test_a_quorum_queue_has_its_delivery_limit(
    given: dict[str, int], limit: int | None, vhost: Vhost
) -> None:
    vhost.ask("queue.declare", name="q", arguments={"x-queue-type": "quorum", **given})
    assert queue(vhost).delivery_limit == limit


def test_a_queue_that_is_closed_by_an_error_has_crashed(vhost: Vhost) -> None:
    client = vhost.client
    client.declare()
    client.consume()
    client.publish(b"1", b"2")
    vhost.room.queues["q"].unacked = 0
    client.connection.take(encode_method(1, BasicAck(1, False)), vhost.room.clock.now)
    found = queue(vhost)
    assert (found.state, found.counts) == ("crashed", QueueCounts(0, 0, 0, 0))


def test_an_exchange_has_its_declaration(vhost: Vhost) -> None:
    arguments = {"alternate-exchange": "amq.fanout"}
    vhost.ask("exchange.declare", name="e", type="topic", internal=True, arguments=arguments)
    view = viewed(vhost, ViewExchanges())
    assert view.describe(("/", "e")) == ("/", "e", "topic", True, False, True, arguments, None)
    assert view.describe(("/", "")) == ("/", "", "direct", True, False, False, {}, None)
    assert view.describe(("/", "none")) is None
    assert view.describe(("none", "e")) is None


def test_bindings_are_found_by_their_ends(vhost: Vhost) -> None:
    client = vhost.client
    for name in ("q", "r"):
        client.declare(name)
        client.ask(QueueBind(queue=name, exchange="amq.topic", routing_key="k"))
    bound = {"source": "amq.topic", "to": "exchange", "destination": "amq.fanout"}
    vhost.ask("binding.create", **bound)
    view = viewed(vhost, ViewBindings())

    def found(**ends: Any) -> set[tuple[str, str]]:
        keys = asyncio.run(view.keys_of("/", **ends))
        assert all(view.describe(key).key == key for key in keys)
        return {(key.source, key.destination) for key in keys}

    implied = {("", "q"), ("", "r")}
    of_topic = {("amq.topic", name) for name in ("q", "r", "amq.fanout")}
    assert {key[1:3] for key in asyncio.run(view.keys(["/", "none"]))} == implied | of_topic
    assert found(source="amq.topic") == of_topic
    assert found(source="") == implied
    assert found(source="none") == set()
    assert found(destination=("queue", "q")) == {("", "q"), ("amq.topic", "q")}
    assert found(destination=("queue", "none")) == set()
    assert found(destination=("exchange", "amq.fanout")) == {("amq.topic", "amq.fanout")}
    assert found(source="", destination=("queue", "q")) == {("", "q")}
    assert found(source="", destination=("exchange", "q")) == set()
    assert found(source="amq.topic", destination=("queue", "q")) == {("amq.topic", "q")}


def test_a_binding_that_is_deleted_is_not_described(vhost: Vhost) -> None:
    vhost.client.declare()
    vhost.client.ask(QueueBind(queue="q", exchange="amq.topic", routing_key="k"))
    view = viewed(vhost, ViewBindings())
    keys = asyncio.run(view.keys(["/"]))
    assert all(map(view.describe, keys))
    vhost.ask("queue.delete", name="q")
    assert not any(map(view.describe, keys))


def test_bindings_with_arguments_have_a_hash_of_what_is_shown(vhost: Vhost) -> None:
    vhost.client.declare()
    for number in (UInt8(1), Long(1), Long(2)):
        arguments: FieldTable = {"n": number, "a": "b"}
        vhost.client.ask(QueueBind(queue="q", exchange="amq.headers", arguments=arguments))
    view = viewed(vhost, ViewBindings())
    keys = asyncio.run(view.keys_of("/", source="amq.headers"))
    one, two = (arguments_hash({"a": "b", "n": number}) for number in (1, 2))
    assert sorted(key.arguments_hash for key in keys) == sorted([one, one, two])
    assert arguments_hash({}) == ""
    assert arguments_hash({"n": True}) != one


def test_keys_are_read_with_pauses(vhost: Vhost) -> None:
    model = vhost.model
    for number in range(2 * SLICE + 1):
        model.declare_queue(f"q{number}", QueueFlags(), {}, None)

    async def turns(asked: Any) -> tuple[int, int]:
        count = 0

        async def tick() -> None:
            nonlocal count
            while True:
                count += 1
                await asyncio.sleep(0)

        view = await vhost.operations.call(CALLER, asked)
        ticking = asyncio.create_task(tick())
        keys = await view.keys(["/"])
        ticking.cancel()
        return len(keys), count

    assert asyncio.run(turns(ViewQueues())) == (len(model.queues), 3)
    number, count = asyncio.run(turns(ViewBindings()))
    assert (number, count) == (len(model.queues), len(model.queues) // BINDINGS)


def test_objects_that_are_not_loaded_are_not_taken_for_missing(vhost: Vhost) -> None:
    vhost.client.declare()
    loaded: set[str] = set()
    vhost.room.broker.declarations = SimpleNamespace(has_loaded=loaded.__contains__)  # type: ignore[assignment]
    for asked in (ViewQueues(), ViewExchanges(), ViewBindings(), ViewPolicies()):
        view = viewed(vhost, asked)
        reads: list[Any] = [lambda view=view: asyncio.run(view.keys(["/"]))]
        if isinstance(asked, ViewBindings):
            reads.append(lambda view=view: asyncio.run(view.keys_of("/", source="")))
        else:
            reads.append(lambda view=view: view.describe(("/", "none")))
        for read in reads:
            loaded.clear()
            with pytest.raises(ApiError, match="declarations of vhost '/' are not loaded"):
                read()
            loaded.add("/")
            assert isinstance(read(), list | None)
    loaded.clear()
    for change in (SetPolicy("/", "p", policy_value()), ClearPolicy("/", "p")):
        with pytest.raises(ApiError, match="declarations of vhost '/' are not loaded"):
            viewed(vhost, change)


def test_each_broker_has_the_counts_of_queues_that_it_leads() -> None:
    async def story(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, 0, 1)
        brokers: list[Any] = [frontend_of(server).broker for server in cluster.brokers.values()]
        caller = CALLER._replace(surface=Surface.KAFKA)
        operations = []
        for server, queues in zip(cluster.brokers.values(), brokers, strict=True):
            settings: Any = SimpleNamespace(users=None, definitions=queues._admission.definitions)
            made = Operations(server.broker)
            made.add(Administration(server.broker, queues, settings, settings).operations)
            operations.append(made)
        views: list[Any] = [await each.call(CALLER, ViewQueues()) for each in operations]
        unused = DeclareQueue("/", "durable", durable=True)
        assert (await operations[0].call(caller, unused)).created
        await until(lambda: all(view.describe(("/", "durable")) for view in views))
        assert not (await operations[1].call(caller, unused)).created
        assert not (await operations[0].call(caller, unused)).created
        for view in views:
            assert view.describe(("/", "durable")).counts == QueueCounts(0, 0, 0, 0)
        await operations[1].call(caller, DeclareQueue("/", "here"))
        await until(lambda: all(view.describe(("/", "here")) for view in views))
        found = [view.describe(("/", "here")) for view in views]
        assert [each.counts for each in found] == [None, QueueCounts(0, 0, 0, 0)]
        assert [(each.leader, each.members, each.state) for each in found] == [
            (1, (1,), "running"), (1, (1,), "running"),
        ]  # fmt: skip
        await operations[0].call(caller, DeleteQueue("/", "here"))
        await until(lambda: not any(view.describe(("/", "here")) for view in views))
        for number, created in ((1, True), (0, False)):
            policy = SetPolicy("/", "p", policy_value("^dur", priority=number))
            assert await operations[number].call(caller, policy) == (created,)
            assert [view.describe(("/", "durable")).applied.policy for view in views] == ["p", "p"]
        await operations[1].call(caller, ClearPolicy("/", "p"))
        assert [view.describe(("/", "durable")).applied for view in views] == [NONE_APPLIED] * 2

    play(story, super_users="User:ann")
