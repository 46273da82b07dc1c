"""Elections and moves of partitions that admins ask for, in a cluster of several brokers."""

from collections.abc import Mapping

import pytest

from headrace.cluster.controller import replica_requests
from headrace.cluster.controller_port import Reassigning
from headrace.cluster.decisions.events import ElectionType, IsrAsked
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.replication.controller_calls import AskedIsr
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, until

E = ErrorCode
ZERO, ONE, TWO = (BrokerId(number) for number in range(3))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOWHERE, BEYOND = TopicPartition("nope", 0), TopicPartition("t", 2)


def play(story: Story) -> None:
    """Run `story` with brokers 0, 1 and 2, of which 0 is the controller."""
    sim_cluster.play(story, 0, 1, 2)


async def made(cluster: SimCluster, *replicas: tuple[int, ...]) -> None:
    (topic,) = await cluster.controller().create_topics(
        [NewTopic("t", assignment=dict(enumerate(replicas)))]
    )
    assert not isinstance(topic, ApiError)


async def in_sync(cluster: SimCluster, *isrs: tuple[BrokerId, ...]) -> None:
    """Have the leaders of topic `t` ask for these ISRs, one for each partition, all at once."""
    controller = cluster.controller()
    term = controller._term
    assert term is not None
    topic = term.facts.topics["t"]
    by_leader: dict[BrokerId, list[AskedIsr]] = {}
    for index, isr in enumerate(isrs):
        state = topic.states[index]
        asked = AskedIsr(TopicPartition("t", index), state.leader_epoch, topic.versions[index], isr)
        by_leader.setdefault(state.leader, []).append(asked)
    for leader, wanted in by_leader.items():
        epoch = term.facts.brokers[leader].epoch
        result = await controller.carry_out(IsrAsked(leader, epoch, wanted))
        assert result.refused == {}


def codes(outcome: Mapping[TopicPartition, ApiError | None]) -> dict[TopicPartition, str | None]:
    return {key: None if error is None else error.code.name for key, error in outcome.items()}


def shown(cluster: SimCluster, index: int = 0) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """Leader and replicas, in the picture of the last broker."""
    partition = cluster.brokers[2].broker.image.topics["t"].partitions[index]
    return partition.leader, partition.replicas


def test_preferred_replicas_lead_again_when_asked_and_each_partition_has_its_answer() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 2), (2, 0))
        replicas = cluster.controller().replicas
        await replicas.reassign({T0: (TWO, ZERO)})  # the order only: 0 leads on
        assert shown(cluster) == (ZERO, (TWO, ZERO))
        asked = [T0, T1, NOWHERE, BEYOND]
        outcome = await replicas.elect(ElectionType.PREFERRED, asked)
        assert list(outcome) == asked
        assert codes(outcome) == {
            T0: None,
            T1: "ELECTION_NOT_NEEDED",
            NOWHERE: "UNKNOWN_TOPIC_OR_PARTITION",
            BEYOND: "UNKNOWN_TOPIC_OR_PARTITION",
        }
        assert shown(cluster)[0] == TWO
        texts = [error.message for error in outcome.values() if error is not None]
        assert texts == [
            "Leader election not needed for topic partition.",
            "No such topic as nope",
            "No such partition as t-2",
        ]

    play(story)


def test_an_unclean_election_is_needed_where_nobody_in_sync_is_left_and_only_there() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (1, 2), (2, 0))
        replicas = cluster.controller().replicas
        await in_sync(cluster, (ONE,))
        await cluster.stop(1)
        await until(lambda: shown(cluster)[0] == -1)
        outcome = await replicas.elect(ElectionType.PREFERRED, [T0])
        assert codes(outcome) == {T0: "PREFERRED_LEADER_NOT_AVAILABLE"}
        outcome = await replicas.elect(ElectionType.UNCLEAN, [T0, T1])
        assert codes(outcome)[T1] == "ELECTION_NOT_NEEDED"
        partition = cluster.brokers[2].broker.image.topics["t"].partitions[0]
        assert partition.isr == (TWO,)

    play(story)


def test_a_partition_is_moved_once_those_that_come_are_in_sync_and_listed_until_then(
    nothing_is_fetched: None,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1), (0, 1))
        replicas = cluster.controller().replicas
        asked = {T0: (TWO, ONE), T1: (ONE, TWO)}
        assert codes(await replicas.reassign(asked)) == {T0: None, T1: None}
        assert replicas.reassigning() == [
            Reassigning(T0, (TWO, ONE, ZERO), (TWO,), (ZERO,)),
            Reassigning(T1, (ONE, TWO, ZERO), (TWO,), (ZERO,)),
        ]
        assert shown(cluster) == (ZERO, (TWO, ONE, ZERO))
        await in_sync(cluster, (ZERO, ONE, TWO), (ZERO, ONE, TWO))
        # Both, though they became in sync with one change of their topic.
        assert replicas.reassigning() == []
        assert [shown(cluster, index)[1] for index in (0, 1)] == [(TWO, ONE), (ONE, TWO)]
        assert {shown(cluster, index)[0] for index in (0, 1)} <= {ONE, TWO}

    play(story)


def test_a_move_is_called_off_and_what_does_not_move_cannot_be() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1))
        replicas = cluster.controller().replicas
        assert codes(await replicas.reassign({T0: None})) == {T0: "NO_REASSIGNMENT_IN_PROGRESS"}
        await replicas.reassign({T0: (TWO,)})
        assert codes(await replicas.reassign({T0: None})) == {T0: None}
        assert replicas.reassigning() == []
        assert shown(cluster) == (ZERO, (ZERO, ONE))

    play(story)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ((), "empty replica list"),
        ((0, 0), "includes the broker 0 more than once"),
        ((0, 9), "includes broker 9, but no such broker is registered"),
        ((0, -1), "includes broker -1, but no such broker is registered"),
    ],
)
def test_replicas_that_cannot_be_are_refused_with_the_reason(
    target: tuple[int, ...], text: str
) -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1))
        asked = tuple(BrokerId(number) for number in target)
        (error,) = (await cluster.controller().replicas.reassign({T0: asked})).values()
        assert error is not None
        assert error.code is E.INVALID_REPLICA_ASSIGNMENT
        assert text in (error.message or "")

    play(story)


def test_the_number_of_replicas_stays_where_it_must() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1))
        replicas = cluster.controller().replicas
        outcome = await replicas.reassign({T0: (ZERO, ONE, TWO)}, factor_may_change=False)
        assert codes(outcome) == {T0: "INVALID_REPLICATION_FACTOR"}
        await replicas.reassign({T0: (TWO, ONE)})  # on its way there are three
        outcome = await replicas.reassign({T0: (ONE, TWO)}, factor_may_change=False)
        assert codes(outcome) == {T0: None}
        assert codes(await replicas.reassign({T0: (ZERO, ONE, TWO)})) == {T0: None}

    play(story)


def test_who_holds_a_partition_may_be_away_while_it_is_moved_who_is_to_may_not() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1))
        await cluster.stop(1)
        await until(lambda: ONE not in cluster.brokers[0].broker.image.brokers)
        replicas = cluster.controller().replicas
        assert codes(await replicas.reassign({T0: (ONE, TWO, ZERO)})) == {T0: None}
        await replicas.reassign({T0: None})
        await in_sync(cluster, (ZERO,))
        await replicas.reassign({T0: (ZERO,)})
        outcome = await replicas.reassign({T0: (ZERO, ONE)})
        assert codes(outcome) == {T0: "INVALID_REPLICA_ASSIGNMENT"}

    play(story)


def test_the_next_controller_ends_a_move_whose_replicas_are_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one before wrote the ISR, and went before it wrote the replicas."""

    async def story(cluster: SimCluster) -> None:
        await made(cluster, (2, 1))
        replicas = cluster.controller().replicas
        await replicas.reassign({T0: (TWO, ZERO)})
        term = cluster.controller()._term
        assert term is not None
        monkeypatch.setattr(term, "_follow_up", nothing)
        await in_sync(cluster, (TWO, ONE, ZERO))
        assert len(replicas.reassigning()) == 1
        cluster.worlds[0]._sessions[-1].events.lost()
        cluster.worlds[0]._sessions[-1].events.reconnected()
        await until(lambda: shown(cluster) == (TWO, (TWO, ZERO)))

    play(story)


async def nothing(*_: object) -> None:
    """What a controller does that has gone."""


def test_another_broker_than_the_controller_decides_nothing() -> None:
    async def story(cluster: SimCluster) -> None:
        await made(cluster, (0, 1))
        replicas = cluster.brokers[1].controller.replicas
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await replicas.elect(ElectionType.PREFERRED, [T0])
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await replicas.reassign({T0: (ZERO,)})
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            replicas.reassigning()

    play(story)


@pytest.mark.parametrize(
    ("code", "target", "text"),
    [
        (E.INVALID_REPLICA_ASSIGNMENT, None,
         "Unable to revert partition assignment for t:0 because it would require an unclean leader"
         " election."),
        (E.INVALID_REPLICA_ASSIGNMENT, (ONE,),
         "none of the new replicas of t:0 that are in sync can lead it"),
        (E.NO_REASSIGNMENT_IN_PROGRESS, None, "No partition reassignment is in progress."),
        (E.UNKNOWN_SERVER_ERROR, (ONE,), ""),
    ],
)  # fmt: skip
def test_why_a_move_cannot_be_is_said_by_what_was_asked(
    code: ErrorCode, target: tuple[BrokerId, ...] | None, text: str
) -> None:
    assert replica_requests._why(code, T0, target) == text


def test_topics_of_queues_move_only_to_brokers_with_the_feature_of_queues() -> None:
    async def story(cluster: SimCluster) -> None:
        name = "__amqp.queue.q"
        controller, moved = cluster.controller(), TopicPartition(name, 0)
        await controller.create_topics([NewTopic(name, assignment={0: (ZERO, ONE)})])
        term = controller._term
        assert term is not None
        brokers = term.facts.brokers
        for able in (ZERO, ONE):
            brokers[able] = brokers[able]._replace(features=frozenset({"headrace.queues"}))
        outcome = await controller.replicas.reassign({moved: (ZERO, TWO)})
        error = outcome[moved]
        assert error is not None
        assert error.code is E.INVALID_REPLICA_ASSIGNMENT
        assert "broker 2, which has no feature headrace.queues" in str(error)
        assert await controller.replicas.reassign({moved: (ONE, ZERO)}) == {moved: None}
        brokers[TWO] = brokers[TWO]._replace(features=frozenset({"headrace.queues"}))
        assert await controller.replicas.reassign({moved: (ONE, ZERO, TWO)}) == {moved: None}

    play(story)
