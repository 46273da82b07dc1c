"""Declarations of vhosts in a cluster: commands to coordinators, and brokers that follow."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.posix.awaiting import called_back
from headrace.queues.model.declarations import ConnectionOwner
from headrace.queues.queue_names import DECLARATIONS_TOPIC, QueueName
from headrace.queues.refusals import RefusalKind, Refused
from headrace.server.assembly import Server
from headrace.shards.ask_leader import LEADER_CHANGES
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard
from headrace.vhosts.declarations.messages import CommandKind, Result
from headrace.vhosts.policies.setting import PolicySettings
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.amqp import queue_cluster_of, serve_amqp
from tests.support.sim.cluster import until


def declarations_of(server: Server) -> ClusterDeclarations:
    return queue_cluster_of(server).declarations


def declarations(cluster: SimCluster, number: int) -> ClusterDeclarations:
    return declarations_of(cluster.brokers[number])


async def ask(
    at: ClusterDeclarations, method: Method, vhost: str = "/", connection: int = 0
) -> Result:
    """Have a method carried out. Raises Refused, ApiError."""
    command = at.command(vhost, method=method)._replace(connection=connection)
    answer: Result = await called_back(lambda done: at.ask(command, done))
    return answer


def policy_settings(cluster: SimCluster, number: int) -> PolicySettings:
    """Return what sets policies at a broker."""
    at = declarations(cluster, number)
    server = cluster.brokers[number]
    visits = queue_cluster_of(server).policy_visits
    return PolicySettings(server.broker, at.tables.virtual_hosts, at, visits)


async def closed(at: ClusterDeclarations, owner: ConnectionOwner) -> None:
    """Have the exclusive queues of a connection deleted."""
    deleted = asyncio.Event()
    at.connection_closed("/", owner, deleted.set)
    await deleted.wait()


async def replan(at: ClusterDeclarations, queue: str, replicas: tuple[int, ...]) -> Result:
    """Plan the replicas of a queue. Raises Refused, ApiError."""
    command = at.command("/", CommandKind.QUEUE_REPLICAS, QueueDeclare(queue=queue))
    wanted = command._replace(replicas=replicas)
    answer: Result = await called_back(lambda done: at.ask(wanted, done))
    return answer


def shown(at: ClusterDeclarations, vhost: str = "/") -> set[tuple[str, str]]:
    """Return the names of queues, policies, declared exchanges and bindings."""
    host = at.tables.virtual_hosts.hosts.get(vhost)
    if host is None:
        return set()
    model = host.model
    found = {("queue", name) for name in model.queues}
    found |= {("policy", each.name) for each in model.policies}
    found |= {("exchange", name) for name in model.exchanges if name and name[:4] != "amq."}
    for exchange in model.exchanges.values():
        for binding in exchange.bindings.values():
            found.add(("binding", f"{binding.source}>{binding.destination.name}"))
    return found


def played(story: Callable[[SimCluster], Awaitable[None]], *brokers: int) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *(brokers or (0, 1)))
        await story(cluster)

    play(whole)


def test_declarations_on_either_broker_are_on_both() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = declarations(cluster, 0), declarations(cluster, 1)
        await ask(first, QueueDeclare(queue="a", durable=True))
        assert shown(first) == shown(second) == {("queue", "a")}
        await ask(second, ExchangeDeclare(exchange="e", type="topic", durable=True))
        await ask(first, QueueBind(queue="a", exchange="e", routing_key="#"))
        all_of_them = {("queue", "a"), ("exchange", "e"), ("binding", "e>a")}
        assert shown(first) == shown(second) == all_of_them
        for at in (first, second):
            router = at.tables.virtual_hosts.hosts["/"].model.router
            assert router.route("e", "x") == ("a",)
        for number in range(20):
            vhost = f"v{number}"
            for at in (first, second):
                at.tables.virtual_hosts.add(vhost)
            await ask(second if number % 2 else first, QueueDeclare(queue="q"), vhost)
            assert shown(first, vhost) == shown(second, vhost) == {("queue", "q")}
        await ask(second, QueueDelete(queue="a"))
        assert shown(first) == shown(second) == {("exchange", "e")}
        await ask(first, ExchangeDelete(exchange="e"))
        assert shown(first) == shown(second) == set()

    played(story)


def test_refusal_of_a_coordinator_names_its_kind_and_resource() -> None:
    async def story(cluster: SimCluster) -> None:
        for number in (0, 1):
            at = declarations(cluster, number)
            with pytest.raises(Refused) as refused:
                await ask(at, QueueBind(queue="q", exchange="none"))
            assert refused.value.kind is RefusalKind.NOT_FOUND
            assert refused.value.resource == "exchange"
            assert str(refused.value) == "no exchange 'none' in vhost '/'"

    played(story)


def test_transient_queues_end_with_the_registration_of_their_broker() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = declarations(cluster, 0), declarations(cluster, 1)
        await ask(first, QueueDeclare(queue="durable", durable=True))
        await ask(second, QueueDeclare(queue="of 1"))
        await ask(second, QueueDeclare(queue="mine", exclusive=True), connection=7)
        await ask(first, QueueDeclare(queue="of 0"))
        names = {"durable", "of 0", "of 1", "mine"}
        assert shown(first) == shown(second) == {("queue", name) for name in names}
        host = first.tables.virtual_hosts.hosts["/"]
        with pytest.raises(Refused):
            host.model.check_queue("mine", None)
        assert "of 0" in host.queues
        assert "of 1" not in host.queues
        cluster.kill(1)
        third = declarations(cluster, 2)
        left = {("queue", "durable"), ("queue", "of 0")}
        await until(lambda: shown(first) == shown(third) == left)
        second = declarations_of(await cluster.start_again(1))
        await until(lambda: second.are_loaded and shown(second) == left)

    played(story, 0, 1, 2)


def test_transient_queue_of_an_ended_registration_is_not_declared() -> None:
    async def story(cluster: SimCluster) -> None:
        first = declarations(cluster, 0)
        await ask(first, QueueDeclare(queue="a", durable=True))
        at = declarations(cluster, first.coordinator.leader_of("/"))
        command = at.command("/", method=QueueDeclare(queue="late"))
        answers: list[object] = []
        at.coordinator.carry_out(command._replace(epoch=command.epoch - 1), answers.append)
        (refused,) = answers
        assert isinstance(refused, ApiError)
        assert refused.code in LEADER_CHANGES
        at.coordinator.carry_out(command, answers.append)
        await until(lambda: len(answers) == 2)
        assert shown(first) == {("queue", "a"), ("queue", "late")}

    played(story)


def test_transient_queues_end_when_their_broker_is_suspected_to_be_dead() -> None:
    async def story(cluster: SimCluster) -> None:
        first = declarations(cluster, 0)
        await ask(first, QueueDeclare(queue="durable", durable=True))
        leader = first.coordinator.leader_of("/")
        suspected = BrokerId((leader + 1) % 3)
        await ask(declarations(cluster, suspected), QueueDeclare(queue="q"))
        image = cluster.brokers[leader].broker.image
        image.suspect(suspected, image.brokers[suspected].epoch)
        await until(lambda: shown(first) == {("queue", "durable")})
        at = declarations(cluster, leader)
        await ask(at, QueueDeclare(queue="q"))
        assert at.home_of("/", "q") == leader

    played(story, 0, 1, 2)


def test_exclusive_queues_end_with_their_connection() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = declarations(cluster, 0), declarations(cluster, 1)
        for at in (first, second):
            owner = at.new_owner()
            exclusive = QueueDeclare(queue="mine", exclusive=True)
            await ask(at, exclusive, connection=owner.connection)
            assert shown(first) == shown(second) == {("queue", "mine")}
            await closed(at, owner)
            assert not shown(first) | shown(second)

    played(story)


def test_repeated_command_gives_a_queue_that_the_server_names_the_same_name() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = declarations(cluster, 0), declarations(cluster, 1)
        command = first.command("/", method=QueueDeclare())
        names = []
        for _ in range(2):
            answer: Result = await called_back(lambda done: first.ask(command, done))
            names.append((answer.name, answer.created))
        assert names == [(names[0][0], True), (names[0][0], False)]
        assert names[0][0].startswith("amq.gen-")
        assert shown(first) == shown(second) == {("queue", names[0][0])}

    played(story)


def test_next_coordinator_applies_only_what_its_table_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied: list[tuple[int, bytes]] = []
    apply = CoordinatorShard.apply

    def noted(
        shard: CoordinatorShard, offset: int, producer: int | None, key: bytes, value: bytes | None
    ) -> None:
        applied.append((offset, key))
        apply(shard, offset, producer, key, value)

    monkeypatch.setattr(CoordinatorShard, "apply", noted)

    async def story(cluster: SimCluster) -> None:
        at = {number: declarations(cluster, number) for number in (0, 1, 2)}
        for number in range(50):
            await ask(at[number % 3], QueueDeclare(queue=f"q{number}", durable=True))
        leader = at[0].coordinator.leader_of("/")
        assert not applied
        cluster.kill(leader)
        left = [found for number, found in at.items() if number != leader]
        await ask(left[0], QueueDeclare(queue="after", durable=True))
        assert len(applied) <= 1
        assert shown(left[0]) == shown(left[1])
        assert len(shown(left[0])) == 51

    played(story, 0, 1, 2)


def test_an_operator_plans_other_replicas_of_a_queue() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = declarations(cluster, 0), declarations(cluster, 1)
        await ask(first, QueueDeclare(queue="a", durable=True))
        name = QueueName("/", "a")
        assert first.planned(name) == second.planned(name) == (0, 1)
        queue = second.tables.virtual_hosts.hosts["/"].model.queues["a"]
        for at, replicas in ((second, (1, 0)), (first, (1,))):
            await replan(at, "a", replicas)
            assert first.planned(name) == second.planned(name) == replicas
        assert second.tables.virtual_hosts.hosts["/"].model.queues["a"] is queue
        await ask(first, QueueDeclare(queue="transient"))
        for missing in ("missing", "transient"):
            with pytest.raises(Refused):
                await replan(first, missing, (1,))

    played(story)


def test_log_grows_though_the_controller_has_no_listener_for_queues() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        serve_amqp(cluster)
        await started(cluster, 1)
        await ask(declarations(cluster, 1), QueueDeclare(queue="q", durable=True))
        await started(cluster, 2, 3)
        image = cluster.brokers[1].broker.image

        def has_grown() -> bool:
            topic = image.topics[DECLARATIONS_TOPIC]
            isrs = [set(partition.isr) for partition in topic.partitions]
            return all(isr == {1, 2, 3} for isr in isrs) and (
                topic.config.get("min.insync.replicas") == "2"
            )

        await until(has_grown)
        assert cluster.brokers[0].controller.is_controller

    play(story)
