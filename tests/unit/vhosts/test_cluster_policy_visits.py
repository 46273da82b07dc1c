"""Policies apply to the queues of all brokers of a cluster before they are answered."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.declarations import DeclaredQueue
from headrace.shards.journal import Journal
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.messages import CommandKind
from headrace.vhosts.led_queues import LedQueues
from headrace.vhosts.policies.commands import PolicyChange
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from tests.support.queues.policies import policy_value, vhost_policy
from tests.support.sim.amqp import queue_cluster_of
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, policy_settings
from tests.unit.vhosts.test_cluster_policies import BROKERS, OPERATORS, P, leader_of, played

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable


def lengths(cluster: SimCluster) -> list[dict[str, int | None]]:
    """The length limits of the queues of `/` on each broker."""
    hosts = [declarations(cluster, number).tables.virtual_hosts.hosts["/"] for number in BROKERS]
    return [
        {name: queue.settings.length_max for name, queue in host.model.queues.items()}
        for host in hosts
    ]


def test_queues_of_all_brokers_have_a_policy_when_it_is_answered() -> None:
    async def story(cluster: SimCluster) -> None:
        for name, durable in (("q1", True), ("q2", False), ("other", True)):
            await ask(declarations(cluster, 0), QueueDeclare(queue=name, durable=durable))
        for number in BROKERS:
            at = policy_settings(cluster, number)
            await at.set("/", {P: policy_value(definition={"max-length": number})})
            assert lengths(cluster) == [{"q1": number, "q2": number, "other": None}] * 3
            await ask(declarations(cluster, number), QueueDeclare(queue=f"q-{number}"))
            assert [each[f"q-{number}"] for each in lengths(cluster)] == [number] * 3
            await at.clear("/", P)
            await ask(declarations(cluster, number), QueueDelete(queue=f"q-{number}"))
            assert lengths(cluster) == [{"q1": None, "q2": None, "other": None}] * 3

    played(story)


def test_broker_that_starts_gives_queues_the_settings_of_their_policies() -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 0), QueueDeclare(queue="q", durable=True))
        leader = leader_of(cluster)
        number = next(each for each in BROKERS if each != leader)
        at = policy_settings(cluster, leader)
        await at.set("/", {P: policy_value(), OPERATORS: policy_value()})
        cluster.kill(number)
        await at.set("/", {P: policy_value(definition={"max-length": 2})})
        await cluster.start_again(number)
        await until(lambda: declarations(cluster, number).are_loaded)
        await until(lambda: lengths(cluster) == [{"q": 2}] * 3)

    played(story)


@pytest.mark.parametrize("length", [3, None])
def test_led_queue_runs_with_the_settings_of_its_policies_when_its_broker_starts(
    monkeypatch: pytest.MonkeyPatch, length: int | None
) -> None:
    ran: list[int | None] = []
    run = LedQueues._run

    def noted(led: LedQueues, host: QueueHost, queue: DeclaredQueue) -> None:
        ran.append(queue.settings.length_max)
        run(led, host, queue)

    async def story(cluster: SimCluster) -> None:
        number = 2
        arguments: FieldTable = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
        at = declarations(cluster, number)
        await ask(at, QueueDeclare(queue="q", durable=True, arguments=arguments))
        queue_cluster_of(cluster.brokers[number]).use(
            "/", at.tables.virtual_hosts.hosts["/"].model.queues["q"]
        )
        await until(lambda: "q" in at.tables.virtual_hosts.hosts["/"].queues)
        if length is not None:
            await policy_settings(cluster, number).set("/", {P: policy_value()})
        cluster.kill(number)
        monkeypatch.setattr(LedQueues, "_run", noted)
        await cluster.start_again(number)
        hosts = declarations(cluster, number).tables.virtual_hosts.hosts
        await until(lambda: "q" in hosts["/"].queues)
        assert ran == [length]
        queues, host = queue_cluster_of(cluster.brokers[number]), hosts["/"]
        queues.policy_visits.begin(host, host.model.policies)
        assert queues._led is not None
        queues._led.declared(host, host.model.queues["q"])
        assert ran == [length], "it waits for the end of the visit"
        await until(lambda: ran == [length, length])

    played(story)


def test_replicas_of_a_queue_are_planned_by_its_policies() -> None:
    async def story(cluster: SimCluster) -> None:
        definition = {"initial-cluster-size": 1}
        await policy_settings(cluster, 0).set("/", {P: policy_value(definition=definition)})
        at = declarations(cluster, 1)
        stream = QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "stream"})
        for name, count in (("q", 1), ("other", 3)):
            await ask(at, stream._replace(queue=name))
            record = at.record("/", name)
            assert record is not None
            assert len(record.replicas) == count

    played(story)


def test_policy_that_is_not_committed_changes_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 0), QueueDeclare(queue="q", durable=True))
        at = declarations(cluster, leader_of(cluster))
        appended: list[Any] = []

        def hold_up(journal: Journal, records: object, done: object) -> None:
            appended.append(done)

        monkeypatch.setattr(Journal, "append_soon", hold_up)
        change = PolicyChange(P, vhost_policy().policy)
        command = at.command("/", CommandKind.POLICIES)._replace(policies=(change,))
        at.coordinator.carry_out(command, lambda answer: None)
        await asyncio.sleep(0.1)
        host = at.tables.virtual_hosts.hosts["/"]
        assert (list(host.model.policies), host.model.table.present) == ([P], None)
        monkeypatch.undo()
        appended[0](ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await until(lambda: not host.model.policies)
        await asyncio.sleep(0.1)
        assert host.model.table.present is None
        assert host.model.queues["q"].settings.length_max is None

    played(story)


def test_answer_waits_for_the_visit_of_each_broker_but_not_for_long() -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 0), QueueDeclare(queue="q", durable=True))
        for number in BROKERS:
            visits = queue_cluster_of(cluster.brokers[number]).policy_visits
            held = visits._slice
            visits._slice = lambda: None  # type: ignore[method-assign]
            setting = asyncio.ensure_future(
                policy_settings(cluster, (number + 1) % 3).set("/", {P: policy_value(f"^{number}")})
            )
            await asyncio.sleep(1)
            assert not setting.done()
            await asyncio.sleep(5)
            assert setting.done()
            visits._slice = held  # type: ignore[method-assign]
            visits._slice()

    played(story)
