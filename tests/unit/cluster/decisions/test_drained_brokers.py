"""A drained broker leads only what no other in-sync replica can lead, also after restarts."""

import asyncio

import pytest

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions import elections
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import BrokersDrained
from headrace.cluster.topics.creation import NewTopic
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.cluster import until
from tests.unit.cluster.decisions.test_leader_balance import facts_of

ONE, TWO = BrokerId(1), BrokerId(2)
DRAINED = "broker.drained"


async def drain(cluster: SimCluster, broker: int, value: str | None = "true") -> None:
    """Set the setting of a broker, or remove it."""
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    settings = cluster.brokers[broker].controller.settings
    await settings.alter_broker(str(broker), [Alteration(DRAINED, operation, value)])


def leaders(cluster: SimCluster, topic: str = "t", by: int = 0) -> list[int]:
    image = cluster.brokers[by].broker.image
    return [partition.leader for partition in image.topics[topic].partitions]


def test_leadership_moves_and_the_former_leader_stays_in_sync() -> None:
    facts = facts_of(ONE, TWO)
    facts.drained = frozenset({ONE})
    (change,) = decide(facts, BrokersDrained()).changes
    ((index, state),) = change.states
    assert (index, state.leader, state.leader_epoch, state.isr) == (0, TWO, 4, (ONE, TWO))


@pytest.mark.parametrize("obstacle", ["out of sync", "drained", "damaged", "suspected", "leaving"])
def test_leadership_stays_where_no_sound_member_can_take_it(obstacle: str) -> None:
    facts = facts_of(ONE, isr=(ONE,) if obstacle == "out of sync" else (ONE, TWO))
    facts.drained = frozenset({ONE, TWO} if obstacle == "drained" else {ONE})
    if obstacle == "damaged":
        facts.damaged.add((TWO, TopicPartition("t", 0)))
    if obstacle == "suspected":
        facts.suspects = {TWO: facts.brokers[TWO].epoch}
    if obstacle == "leaving":
        facts.leaving = {TWO}
    assert decide(facts, BrokersDrained()).changes == ()


def test_a_drained_broker_is_elected_only_if_no_other_member_can_lead() -> None:
    facts = facts_of(NO_LEADER)
    facts.drained = frozenset({ONE})
    topic = facts.topics["t"]
    assert elections.elected(facts, topic, 0).leader == TWO
    assert elections.preferred(facts, topic, 0) is None
    del facts.brokers[TWO]
    assert elections.elected(facts, topic, 0).leader == ONE


def test_a_broker_is_drained_and_revived_while_it_runs() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        assignment = dict.fromkeys(range(3), (ONE, TWO))
        await cluster.controller().create_topics([NewTopic("t", assignment=assignment)])
        assert leaders(cluster) == [1, 1, 1]
        await drain(cluster, 1)
        await until(lambda: leaders(cluster) == [2, 2, 2])
        later = NewTopic("later", assignment={0: (ONE, TWO)})
        alone = NewTopic("alone", assignment={0: (ONE,)})
        await cluster.controller().create_topics([later, alone])
        assert leaders(cluster, "later") + leaders(cluster, "alone") == [2, 1]
        assert cluster.brokers[2].broker.image.drained == {1}
        await drain(cluster, 1, None)
        await until(lambda: not cluster.brokers[2].broker.image.drained)
        await asyncio.sleep(10)
        assert leaders(cluster) == [2, 2, 2]

    play(story, auto_leader_rebalance_enable="false")


def test_restarts_keep_a_broker_drained_and_so_does_another_controller() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await drain(cluster, 1)
        await cluster.stop(1)
        await started(cluster, 1)
        created = NewTopic("t", assignment={0: (ONE, TWO)})
        await cluster.controller().create_topics([created])
        assert leaders(cluster) == [2]
        await cluster.stop(2)  # the drained broker leads, as no other replica can
        await until(lambda: leaders(cluster) == [1])
        await cluster.stop(0)
        await until(lambda: cluster.brokers[1].controller.is_controller)
        await started(cluster, 2)
        await until(lambda: leaders(cluster, by=1) == [2])

    play(story, leader_imbalance_check_interval_seconds="5")


def test_all_brokers_at_once_cannot_be_drained() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        settings = cluster.brokers[0].controller.settings
        with pytest.raises(ApiError, match="all brokers at once"):
            await settings.alter_broker("", [Alteration(DRAINED, AlterOperation.SET, "true")])

    play(story)
