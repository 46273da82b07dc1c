"""Policies in a cluster: set at one broker, and applied by all before that is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.membership import registration
from headrace.config.listeners import spoken_rows
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId
from headrace.model.protocols import AMQP, POLICY_RECORDS
from headrace.queues.model.policies import vhost_policy as bounds
from headrace.queues.model.policies.policy import InvalidPolicy
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy
from headrace.queues.refusals import POLICY, RefusalKind, Refused
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.messages import (
    Command,
    CommandKind,
    command_fields,
    command_of,
)
from headrace.vhosts.policies.commands import PolicyChange, check_readable
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.peer_messages import PEER_MESSAGES
from tests.support.cluster.peer_kit import play, started
from tests.support.queues.policies import policy_value, vhost_policy
from tests.support.sim.amqp import serve_amqp
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, policy_settings

BROKERS = (0, 1, 2)
P, OPERATORS = PolicyId("p"), PolicyId("p", True)
Policies = Mapping[PolicyId, VhostPolicy]


def played(story: Callable[[SimCluster], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *BROKERS)
        await story(cluster)

    play(whole)


def of_brokers(cluster: SimCluster) -> list[Policies]:
    """The policies of `/` on each broker."""
    return [
        dict(declarations(cluster, number).tables.virtual_hosts.hosts["/"].model.policies)
        for number in cluster.brokers
    ]


def common(cluster: SimCluster) -> dict[PolicyId, str]:
    """The patterns of `/`, which all brokers have."""
    first, *others = of_brokers(cluster)
    assert all(other == first for other in others)
    return {each: policy.policy.pattern for each, policy in first.items()}


def leader_of(cluster: SimCluster) -> int:
    return int(declarations(cluster, min(cluster.brokers)).coordinator.leader_of("/"))


def test_policies_are_on_all_brokers_when_they_are_answered() -> None:
    async def story(cluster: SimCluster) -> None:
        for number in BROKERS:
            at = policy_settings(cluster, number)
            await at.set("/", {P: policy_value(f"^{number}"), OPERATORS: policy_value()})
            assert common(cluster) == {P: f"^{number}", OPERATORS: "^q"}
            await at.clear("/", OPERATORS)
            assert common(cluster) == {P: f"^{number}"}
            now_ms = cluster.brokers[number].broker.clock.wall_ms()
            assert now_ms - 1000 < of_brokers(cluster)[0][P].changed_ms <= now_ms
        with pytest.raises(ApiError, match="there is no vhost 'other'"):
            await policy_settings(cluster, 0).clear("other", P)

    played(story)


def test_two_sets_at_the_same_time_leave_one_of_them_on_all_brokers() -> None:
    async def story(cluster: SimCluster) -> None:
        for _ in range(5):
            await asyncio.gather(
                *(policy_settings(cluster, n).set("/", {P: policy_value(f"^{n}")}) for n in BROKERS)
            )
            assert common(cluster)[P] in {"^0", "^1", "^2"}

    played(story)


def test_invalid_policy_leaves_the_present_one() -> None:
    async def story(cluster: SimCluster) -> None:
        at = policy_settings(cluster, 1)
        await at.set("/", {P: policy_value()})
        with pytest.raises(InvalidPolicy) as refused:
            await at.set("/", {PolicyId("other"): policy_value(), P: policy_value("(")})
        assert str(refused.value).startswith(
            "Validation failed\n\npattern should be regular expression but is invalid: missing )"
        )
        assert common(cluster) == {P: "^q"}

    played(story)


def test_coordinator_refuses_policies_that_exceed_a_bound_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "POLICIES_MAX", 2)

    async def story(cluster: SimCluster) -> None:
        await policy_settings(cluster, 0).set("/", {P: policy_value()})
        more = {PolicyId(f"p{each}"): policy_value() for each in range(2)}
        for number in BROKERS:
            with pytest.raises(Refused, match="'/' must not have more than 2 policies") as refused:
                await policy_settings(cluster, number).set("/", more)
            assert refused.value.kind is RefusalKind.PRECONDITION_FAILED
            assert refused.value.resource == POLICY
        assert common(cluster) == {P: "^q"}

    played(story)


def test_policies_stay_when_the_coordinator_is_killed_between_their_changes() -> None:
    async def story(cluster: SimCluster) -> None:
        await policy_settings(cluster, 0).set("/", {P: policy_value()})
        leader = leader_of(cluster)
        at = policy_settings(cluster, next(n for n in BROKERS if n != leader))

        async def change() -> None:
            for number in range(100):
                await at.set(
                    "/", {P: policy_value(f"^{number}"), PolicyId(f"p{number}"): policy_value()}
                )

        changes = asyncio.create_task(change())
        await until(lambda: PolicyId("p40") in of_brokers(cluster)[leader])
        cluster.kill(leader)
        await changes
        names = {PolicyId(f"p{number}") for number in range(100)}
        assert common(cluster) == {P: "^99"} | dict.fromkeys(names, "^q")
        times = of_brokers(cluster)
        await cluster.start_again(leader)
        await until(lambda: len(of_brokers(cluster)) == 3 and of_brokers(cluster)[-1] == times[0])

    played(story)


def test_policies_change_while_the_store_does_not_answer() -> None:
    async def story(cluster: SimCluster) -> None:
        await policy_settings(cluster, 0).set("/", {P: policy_value()})
        for world in cluster.worlds.values():
            world.lose_touch()
        await asyncio.sleep(5)
        for number in BROKERS:
            await policy_settings(cluster, number).set("/", {P: policy_value(f"^{number}")})
            assert common(cluster) == {P: f"^{number}"}
        for world in cluster.worlds.values():
            world.regain_touch()
        await asyncio.sleep(20)
        await policy_settings(cluster, 1).clear("/", P)
        assert common(cluster) == {}

    played(story)


def test_policies_are_refused_until_all_brokers_can_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: SimCluster) -> None:
        with monkeypatch.context() as before:
            before.setattr(
                registration,
                "spoken_rows",
                lambda listeners: [
                    row._replace(later_features=()) for row in spoken_rows(listeners)
                ],
            )
            await started(cluster, 3)
        await ask(declarations(cluster, 0), QueueDeclare(queue="q", durable=True))
        table = declarations(cluster, 0).tables.of_vhost("/")
        applied = table.applied
        wanted = vhost_policy()
        for number in BROKERS:
            with monkeypatch.context() as unasked:
                unasked.setattr(declarations(cluster, number), "ask", None)
                with pytest.raises(ApiError, match="upgrade broker 3") as refused:
                    await policy_settings(cluster, number).set("/", {P: policy_value()})
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
            at = declarations(cluster, number)
            command = at.command("/", CommandKind.POLICIES)
            answers: list[object] = []
            at.ask(command._replace(policies=(PolicyChange(P, wanted.policy),)), answers.append)
            await until(lambda: answers)  # noqa: B023
            assert "upgrade broker 3" in str(answers[0]), "the coordinator refuses them, too"
        assert common(cluster) == {}
        assert table.applied == applied, "nothing is appended"
        await cluster.stop(3)
        await started(cluster, 3)
        await policy_settings(cluster, 3).set("/", {P: policy_value()})
        assert common(cluster) == {P: "^q"}
        features = cluster.brokers[0].broker.image.brokers[BrokerId(3)].features
        assert features == {AMQP.feature, *AMQP.later_features}

    played(story)


@pytest.mark.parametrize(
    ("features", "brokers"),
    [
        ([], None),
        ([set(), {"headrace.queues", POLICY_RECORDS}], None),
        ([{"headrace.queues"}], "upgrade broker 0$"),
        ([{"headrace.queues"}, set(), {"headrace.queues", "later"}], "upgrade brokers 0, 2$"),
    ],
    ids=["none", "able", "before", "two"],
)
def test_brokers_with_queues_need_the_feature(
    features: list[set[str]], brokers: str | None
) -> None:
    image: Any = SimpleNamespace(
        brokers={number: SimpleNamespace(features=each) for number, each in enumerate(features)}
    )
    if brokers is None:
        check_readable(image)
    else:
        with pytest.raises(ApiError, match=brokers):
            check_readable(image)


def test_only_policies_that_are_set_count_as_declarations() -> None:
    command = Command("/", CommandKind.POLICIES, BrokerId(1), 7)
    cleared, wanted = PolicyChange(P, None), PolicyChange(P, vhost_policy().policy)
    assert command._replace(policies=(cleared, wanted)).adds
    assert not command._replace(policies=(cleared,)).adds
    assert Command("/", CommandKind.METHOD, BrokerId(1), 7, method=QueueDeclare()).adds
    assert not Command("/", CommandKind.METHOD, BrokerId(1), 7, method=QueueDelete()).adds
    assert not Command("/", CommandKind.QUEUE_REPLICAS, BrokerId(1), 7, method=QueueDeclare()).adds


def test_command_crosses_between_brokers_as_it_is() -> None:
    command = Command("/", CommandKind.POLICIES, BrokerId(1), 7)._replace(
        policies=(
            PolicyChange(P, vhost_policy("p", "^é").policy._replace(priority=-2.5)),
            PolicyChange(PolicyId("größe", True), None),
        )
    )
    message = PEER_MESSAGES[ApiKey.DECLARE].request
    fields = {"brokerId": 1, "commands": [command_fields(command)]}
    (read,) = message.decode(message.encode(fields, 1), 1)["commands"]
    assert command_of(read, command.broker) == command
    with pytest.raises(Malformed, match="a command of a later version"):
        command_of(read | {"kind": 99}, command.broker)
    (before,) = message.decode(message.encode(fields, 0), 0)["commands"]
    assert command_of(before, command.broker) == command._replace(policies=())
