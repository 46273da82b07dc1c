"""Vhosts of a cluster that are deleted: first their declarations, then their definitions."""

from collections.abc import Awaitable, Callable

import pytest

from headrace.frontends.amqp.administration import Administration
from headrace.model.errors import ApiError
from headrace.model.protocols import AMQP
from headrace.operations.permissions import Caller, Surface
from headrace.operations.virtual_hosts import AlterVhost, CreateVhost, DeleteVhost
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.queues.queue_names import queue_topic
from headrace.security.identity import Identity
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.coordinator import Coordinator
from headrace.vhosts.declarations.messages import Answer, Command, CommandKind
from headrace.wire.amqp.model_methods import ExchangeDeclare, QueueBind, QueueDeclare
from tests.support.cluster.peer_kit import play, started
from tests.support.queues.policies import policy_value
from tests.support.queues.port_place import persistent
from tests.support.sim.amqp import frontend_of, serve_amqp
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, policy_settings, shown

BROKERS = (0, 1, 2)
TOPIC = queue_topic("v", "q")


def played(story: Callable[[SimCluster], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *BROKERS)
        await story(cluster)

    play(whole)


async def operate(
    cluster: SimCluster, number: int, asked: CreateVhost | AlterVhost | DeleteVhost
) -> None:
    """Carry out an operation of an administrator on a broker."""
    server = cluster.brokers[number]
    settings = server.controller.settings
    operations = Administration(
        server.broker,
        frontend_of(server).broker,  # type: ignore[arg-type]
        settings,
        settings.stored[AMQP.name],  # type: ignore[arg-type]
    ).operations
    caller = Caller(Identity("127.0.0.1", "PLAINTEXT"), Surface.KAFKA)
    await operations[type(asked)](caller, asked)


async def created(cluster: SimCluster) -> None:
    """Create the vhost, which all brokers have then."""
    await operate(cluster, 0, CreateVhost("v"))
    hosts = [declarations(cluster, number).tables.virtual_hosts.hosts for number in BROKERS]
    await until(lambda: all("v" in of_broker for of_broker in hosts))


async def filled(cluster: SimCluster) -> None:
    """Declare in the vhost, and use its queue."""
    at = declarations(cluster, 1)
    await ask(at, ExchangeDeclare(exchange="e", type="topic", durable=True), "v")
    await ask(at, QueueDeclare(queue="q", durable=True), "v")
    await ask(at, QueueDeclare(queue="transient"), "v")
    await ask(at, QueueBind(queue="q", exchange="e", routing_key="#"), "v")
    await policy_settings(cluster, 1).set("v", {PolicyId("p"): policy_value()})
    assert at.tables.virtual_hosts.hosts["v"].publish(["q"], persistent("a"))
    images = [server.broker.image for server in cluster.brokers.values()]
    await until(lambda: all(TOPIC in image.topics for image in images))


async def gone(cluster: SimCluster) -> None:
    """Wait until no broker has anything of the vhost."""
    for number in BROKERS:
        at = declarations(cluster, number)
        image = cluster.brokers[number].broker.image
        table = at.tables.of_vhost("v")
        await until(lambda: "v" not in {vhost for vhost, _ in table.records.values()})  # noqa: B023
        await until(lambda: TOPIC not in image.topics)  # noqa: B023
        await until(lambda: "v" not in at.tables.virtual_hosts.hosts)  # noqa: B023


def test_deleted_vhost_leaves_no_declaration_and_no_topic() -> None:
    async def story(cluster: SimCluster) -> None:
        await created(cluster)
        for number in BROKERS:
            await filled(cluster)
            await operate(cluster, number, DeleteVhost("v"))
            await gone(cluster)
            await created(cluster)
            assert shown(declarations(cluster, 0), "v") == set()

    played(story)


def test_nothing_is_declared_between_both_deletions() -> None:
    async def story(cluster: SimCluster) -> None:
        await created(cluster)
        at = declarations(cluster, 0)
        await at.delete_vhost("v")
        command = at.command("v", method=QueueDeclare(queue="q", durable=True))

        def carry_out(done: Done[Answer | ApiError]) -> None:
            leader = at.coordinator.leader_of("v")
            declarations(cluster, leader).coordinator.carry_out(command, done)

        with pytest.raises(ApiError):
            await called_back(carry_out)
        await ask(at, QueueDeclare(queue="q", durable=True), "v")  # the definition has stayed
        assert shown(at, "v") == {("queue", "q")}

    played(story)


def test_declaration_between_both_deletions_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another broker had become the coordinator between them."""
    model = Coordinator._model

    def forgetful(self: Coordinator, command: Command, shard: object) -> object:
        self._closed.clear()
        return model(self, command, shard)  # type: ignore[arg-type]

    monkeypatch.setattr(Coordinator, "_model", forgetful)

    async def story(cluster: SimCluster) -> None:
        await created(cluster)
        await filled(cluster)
        at = declarations(cluster, 2)
        delete = at.delete_vhost

        async def and_declare(vhost: str) -> None:
            await delete(vhost)
            await filled(cluster)

        monkeypatch.setattr(at, "delete_vhost", and_declare)
        await operate(cluster, 2, DeleteVhost("v"))
        await gone(cluster)
        await created(cluster)
        assert all(shown(declarations(cluster, number), "v") == set() for number in BROKERS)

    played(story)


def test_command_of_a_deletion_deletes_all_declarations() -> None:
    async def story(cluster: SimCluster) -> None:
        await created(cluster)
        await filled(cluster)
        at = declarations(cluster, 0)
        answers: list[object] = []
        at.ask(at.command("v", CommandKind.VHOST_DELETED), answers.append)
        await until(lambda: answers)
        assert all(shown(declarations(cluster, number), "v") == set() for number in BROKERS)
        assert "v" in at.tables.virtual_hosts.hosts

    played(story)


def test_queue_of_a_cluster_gets_the_default_type_of_its_vhost() -> None:
    async def story(cluster: SimCluster) -> None:
        await created(cluster)
        await operate(cluster, 1, AlterVhost("v", default_queue_type="quorum"))
        hosts = [
            declarations(cluster, number).tables.virtual_hosts.hosts["v"] for number in BROKERS
        ]
        await until(lambda: {host.model.default_queue_type.value for host in hosts} == {"quorum"})
        for name, durable in (("q", True), ("transient", False)):
            await ask(declarations(cluster, 0), QueueDeclare(queue=name, durable=durable), "v")
        await until(lambda: all("transient" in host.model.queues for host in hosts))
        types = [host.model.queues["q"].settings.queue_type.value for host in hosts]
        assert types == ["quorum"] * 3
        assert hosts[2].model.queues["transient"].settings.queue_type.value == "classic"

    played(story)
